import { SimpleGrid, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { useFilters } from '../../ui/filters';
import { Figure, Loaded, Page, Section } from '../../ui/page';
import { Moment, State } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import { operatorName } from './history';
import { useDone } from './lists';
import { Calibrations } from './verification-calibrations';
import { Effects } from './verification-effects';
import { Offers } from './verification-offers';
import { Verdicts } from './verification-verdicts';

export default function Verification() {
  const [{ tab }, setFilters] = useFilters({ tab: 'offers' });
  return (
    <Page
      title="Verification"
      lead="Whether providers serve what they state. What stands here must not reach providers: it tells what is worth a risk."
    >
      <Overview />
      <PenaltySwitch />
      <Tabs value={tab} onChange={(next) => setFilters({ tab: next ?? 'offers' })} keepMounted={false}>
        <Tabs.List aria-label="Parts of verification" mb="md">
          <Tabs.Tab value="offers">Offers</Tabs.Tab>
          <Tabs.Tab value="verdicts">Verdicts</Tabs.Tab>
          <Tabs.Tab value="calibrations">Calibrations and references</Tabs.Tab>
          <Tabs.Tab value="effects">Refused effects</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="offers">
          <Offers />
        </Tabs.Panel>
        <Tabs.Panel value="verdicts">
          <Verdicts />
        </Tabs.Panel>
        <Tabs.Panel value="calibrations">
          <Calibrations />
        </Tabs.Panel>
        <Tabs.Panel value="effects">
          <Effects />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** What waits for an operator. Counts are of one page; more than it has is said with a plus. */
function Overview() {
  const query = useQuery({
    queryKey: ['admin', 'verification', 'overview'],
    queryFn: async () => {
      const [waiting, effects, references] = await Promise.all([
        answer(
          api.GET('/api/v1/admin/verification/verdicts', { params: { query: { waiting: true, page_size: 200 } } }),
        ),
        answer(api.GET('/api/v1/admin/verification/effects', { params: { query: { page_size: 200 } } })),
        answer(api.GET('/api/v1/admin/verification/references')),
      ]);
      return { waiting: counted(waiting), effects: counted(effects), references: references.list };
    },
    refetchInterval: 60_000,
  });
  return (
    <Loaded query={query}>
      {({ waiting, effects, references }) => (
        <SimpleGrid cols={{ base: 1, xs: 3 }}>
          <Figure
            label="Verdicts that wait for you"
            note="Each takes 30% and removes the provider, once an operator agrees."
          >
            {waiting}
          </Figure>
          <Figure label="Effects that were refused" note="They stand still until they are tried again.">
            {effects}
          </Figure>
          <Figure
            label="References connected"
            note={`Of ${new Set(references.map((one) => one.model_id)).size} models.`}
          >
            {new Set(references.map((one) => one.node_id)).size}
          </Figure>
        </SimpleGrid>
      )}
    </Loaded>
  );
}

function counted(page: { list: unknown[]; next_cursor: string }): string {
  return `${page.list.length}${page.next_cursor === '' ? '' : '+'}`;
}

function PenaltySwitch() {
  const query = useQuery({
    queryKey: ['admin', 'verification', 'penalties'],
    queryFn: () => answer(api.GET('/api/v1/admin/verification/penalties')),
  });
  return (
    <Section title="Penalties" json={query.data}>
      <Loaded query={query}>{({ penalties }) => <Switch penalties={penalties ?? never} />}</Loaded>
    </Section>
  );
}

const never: Schemas['Penalties'] = { on: false, reason: '', changed_at: null, changed_by: '', calibrated_strata: 0 };

const switchedOn =
  'From now on a proof takes 10% of a provider’s collateral, and the next one 30% with removal, which an operator approves each time. ' +
  'A penalty can be appealed for 48 hours.';
const switchedOff = 'No new penalty is opened. Penalties that are open go on: decide them on the page of penalties.';

function Switch({ penalties }: { penalties: Schemas['Penalties'] }) {
  const done = useDone();
  const { on, calibrated_strata: strata } = penalties;
  return (
    <>
      <Text size="sm" mb="sm" component="div">
        <State tone={on ? 'good' : 'warning'}>{on ? 'on' : 'off'}</State>{' '}
        {on
          ? 'Proofs cost providers collateral.'
          : 'Proofs cost nobody money. Notices, caps and lanes act all the same.'}{' '}
        Calibrated strata that reach penalties: {strata}.
        {penalties.changed_by !== '' && (
          <>
            {' '}
            Last said by {operatorName(penalties.changed_by)}, <Moment at={penalties.changed_at} />: {penalties.reason}
          </>
        )}
      </Text>
      <Act
        label={on ? 'Switch penalties off' : 'Switch penalties on'}
        title={on ? 'Switch penalties off?' : 'Switch penalties on?'}
        permission={needs['POST /api/v1/admin/verification/penalties']}
        blocked={
          !on && strata === 0 ? 'No stratum has a calibration that reaches penalties. Calibrate a model first.' : ''
        }
        destructive={!on}
        facts={[
          ['To whom', 'all providers'],
          ['Second person', 'none is needed'],
        ]}
        reason="Why, for the audit."
        run={({ reason }) => answer(api.POST('/api/v1/admin/verification/penalties', { body: { on: !on, reason } }))}
        done={() => done(on ? 'Penalties are off.' : 'Penalties are on.')}
      >
        {on ? switchedOff : switchedOn}
      </Act>
    </>
  );
}
