import { Anchor, Group, List, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { answer, api, type Schemas } from '../../api/client';
import { percent } from '../../format/quantity';
import { Loaded, Page, Section } from '../../ui/page';
import { DataTable, Facts } from '../../ui/table';
import { Id, Moment, State } from '../../ui/text';
import { History } from './history';
import { Changes } from './provider-changes';
import { Collateral } from './provider-collateral';
import { Keys, ModelActs, Unbind } from './provider-acts';
import { Routing } from './provider-routing';
import { Qualification, Reference, StatusActs } from './provider-status';
import { causeWord, meaningOf, missingOf, shownStatus, type Provider as ProviderAccount } from './provider-words';

export default function Provider() {
  const id = useParams().id ?? '';
  const query = useQuery({
    queryKey: ['admin', 'provider', id],
    queryFn: () => answer(api.GET('/api/v1/admin/providers/{provider_id}', { params: { path: { provider_id: id } } })),
  });
  const name = query.data?.provider?.name ?? '';
  return (
    <Page
      title={name === '' ? 'Provider' : name}
      lead="Where the provider stands, what blocks it, and what operators may do."
    >
      <Loaded query={query}>
        {(detail) => (detail.provider === null ? null : <Known detail={detail} provider={detail.provider} />)}
      </Loaded>
    </Page>
  );
}

function Known({ detail, provider }: { detail: Schemas['GetProviderDetailResponse']; provider: ProviderAccount }) {
  return (
    <>
      <Standing provider={provider} json={detail} />
      <Qualification provider={provider} />
      <StatusActs provider={provider} />
      <Machines nodes={detail.nodes} />
      <Routing id={provider.provider_id} />
      {detail.answered_as.length > 0 && <AnsweredAs list={detail.answered_as} />}
      <Collateral id={provider.provider_id} />
      <ModelActs provider={provider} />
      <Owner provider={provider} />
      <Keys provider={provider} />
      <Reference provider={provider} />
      <Changes id={provider.provider_id} />
      <History subject={provider.provider_id} service="provider-hub" />
    </>
  );
}

function Standing({ provider, json }: { provider: ProviderAccount; json: unknown }) {
  const { word, tone } = shownStatus(provider);
  const missing = missingOf(provider);
  const to = encodeURIComponent(provider.provider_id);
  return (
    <Section title="Standing" json={json}>
      <Text mb="sm" component="div">
        <State tone={tone}>{word}</State> {meaningOf(provider.status)}
        {missing.length > 0 && ` Missing: ${missing.join(', ')}.`}
      </Text>
      {provider.suspensions.length > 0 && (
        <List size="sm" mb="sm" aria-label="Causes of the suspension">
          {provider.suspensions.map((one) => (
            <List.Item key={one.cause}>
              {causeWord(one.cause)}, since <Moment at={one.since} />: {one.meaning} {one.reason}
            </List.Item>
          ))}
        </List>
      )}
      <Facts
        facts={[
          ['Id', <Id key="id" value={provider.provider_id} what="provider id" full />],
          ['Connected', provider.online ? 'yes' : 'no'],
          ['Region', provider.region || '–'],
          ['Uptime, 24 hours', percent(provider.uptime_24h, 2)],
          ['Uptime, 30 days', percent(provider.uptime_30d, 2)],
          ['Probation ends', <Moment key="probation" at={provider.probation_ends_at} withAge />],
          ['Signed up', <Moment key="created" at={provider.created_at} />],
          [
            'Kind',
            provider.vendor
              ? 'vendor of gateway models'
              : provider.reference
                ? 'reference of the platform'
                : 'provider',
          ],
        ]}
      />
      <Group gap="md" mt="sm">
        <To to={`/penalties?state=&provider=${to}`}>Penalties</To>
        <To to={`/verification?tab=offers&provider=${to}`}>Verification</To>
        <To to={`/verification?tab=verdicts&provider=${to}`}>Verdicts</To>
        <To to={`/endpoints?provider=${to}`}>External endpoints</To>
      </Group>
    </Section>
  );
}

function To({ to, children }: { to: string; children: string }) {
  return (
    <Anchor component={Link} to={to} size="sm">
      {children}
    </Anchor>
  );
}

function Machines({ nodes }: { nodes: Schemas['ProviderNode'][] }) {
  return (
    <Section title="Machines" json={nodes} note="Those that were seen in the last 30 days.">
      <DataTable
        caption="Machines of the provider"
        columns={[
          { name: 'Machine', cell: (node) => <NodeName node={node} /> },
          {
            name: 'Connected',
            cell: (node) => <State tone={node.online ? 'good' : 'neutral'}>{node.online ? 'yes' : 'no'}</State>,
          },
          { name: 'GPU', cell: (node) => gpu(node) },
          { name: 'GPU rule', cell: (node) => (node.gpu_eligible ? 'fulfilled' : 'not fulfilled') },
          { name: 'Engine', cell: (node) => node.engine || '–' },
          { name: 'Agent', cell: (node) => `${node.agent_version || 'unknown'}, ${node.dialect}` },
          { name: 'Last seen', cell: (node) => <Moment at={node.last_seen_at} withAge /> },
        ]}
        rows={nodes}
        id={(node) => node.node_id}
        empty="No machine has connected. The provider starts its agent with its key."
      />
    </Section>
  );
}

function NodeName({ node }: { node: Schemas['ProviderNode'] }) {
  return (
    <span className="breakable">
      {node.node_name} <Id value={node.node_id} what="node id" />
    </span>
  );
}

function gpu(node: Schemas['ProviderNode']): string {
  if (node.gpu_count === 0) return 'none reported';
  const memory = node.vram_gb === 0 ? 'memory not known' : `${node.vram_gb} GB each`;
  const capability = node.compute_capability === '' ? '' : `, compute ${node.compute_capability}`;
  return `${node.gpu_count} × ${node.gpu_model || 'unknown'}, ${memory}${capability}`;
}

function AnsweredAs({ list }: { list: Schemas['AnsweredAs'][] }) {
  return (
    <Section
      title="Answered as another model"
      json={list}
      note="Engines may call a build otherwise, quantised ones above all. It is a sign for a review, and costs nothing by itself."
    >
      <DataTable
        caption="Models that its engines called otherwise in the last 35 days"
        columns={[
          { name: 'Asked for', cell: (one) => <span className="breakable">{one.model_id}</span> },
          { name: 'Answered as', cell: (one) => <span className="breakable">{one.answered_as}</span> },
          { name: 'Answers', numeric: true, cell: (one) => one.answers.toLocaleString('en-US') },
          { name: 'First', cell: (one) => <Moment at={one.first_at} /> },
          { name: 'Last', cell: (one) => <Moment at={one.last_at} /> },
          { name: 'Meaning', cell: (one) => one.meaning },
        ]}
        rows={list}
        id={(one) => one.model_id}
        empty="None."
      />
    </Section>
  );
}

function Owner({ provider }: { provider: ProviderAccount }) {
  return (
    <Section
      title="Owner and addresses"
      json={provider.proposals}
      note="A key alone only proposes an address. It counts once the user confirms it, or after 48 hours where there is no user."
      actions={<Unbind provider={provider} />}
    >
      <Facts
        facts={[
          ['Owner’s wallet', <Id key="owner" value={provider.owner_address} what="wallet" full />],
          ['Proven by a signature', provider.owner_address === '' ? '–' : provider.owner_proven ? 'yes' : 'no'],
          ['Earnings go to', <Id key="payee" value={provider.beneficiary_address} what="address" full />],
        ]}
      />
      <DataTable
        caption="Proposed addresses"
        columns={[
          {
            name: 'What',
            cell: (one) => (one.kind === 'owner' ? 'whose wallet owns the account' : 'where earnings go'),
          },
          { name: 'Address', cell: (one) => <Id value={one.address} what="address" /> },
          { name: 'By key', cell: (one) => <Id value={one.key_id} what="key id" /> },
          { name: 'Proposed', cell: (one) => <Moment at={one.proposed_at} /> },
          {
            name: 'Takes effect',
            cell: (one) =>
              one.takes_effect_at === null ? 'when the user confirms' : <Moment at={one.takes_effect_at} withAge />,
          },
        ]}
        rows={provider.proposals}
        id={(one) => one.proposal_id}
        empty="No address is proposed."
      />
    </Section>
  );
}
