// One vendor: its account, its server and its models.

import { Group, TextInput } from '@mantine/core';
import { useState } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { Section } from '../../ui/page';
import { DataTable, Facts, type Column } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import { Act } from './act';
import { Detail } from './detail';
import { History, operatorName } from './history';
import { useDone } from './lists';
import type { Vendor, VendorBalance } from './vendor-data';
import { EditVendor } from './vendor-form';
import { PayInvoice } from './vendor-pay';

/** Why the last probe of a server failed, by the word of the API. */
const probes: Record<string, string> = {
  unreachable: 'The server does not answer.',
  unauthorized: 'The server refuses the key.',
  unexpected_status: 'The server answers with another status than 200.',
  unexpected_answer: 'The answer is no list of models.',
  models_missing: 'The server does not list all models.',
  key_unreadable: 'The kept key cannot be read. Give it anew.',
  origin_taken: 'Another provider serves from this scheme, host and port.',
  requests_failing: 'Probes are good, but requests fail.',
};

interface VendorDetailProps {
  vendor: Vendor | undefined;
  balance: VendorBalance | undefined;
  onClose: () => void;
}

export function VendorDetail({ vendor, balance, onClose }: VendorDetailProps) {
  return (
    <Detail title={vendor?.name ?? 'Vendor'} open={vendor !== undefined} onClose={onClose}>
      {vendor !== undefined && (
        <>
          <Account vendor={vendor} balance={balance} />
          <Server vendor={vendor} />
          <History subject={vendor.provider_id} service="" />
        </>
      )}
    </Detail>
  );
}

function Account({ vendor, balance }: { vendor: Vendor; balance: VendorBalance | undefined }) {
  const last = balance?.last_payment;
  return (
    <Section title="Account" json={{ vendor, balance }} actions={<PayInvoice vendor={vendor} balance={balance} />}>
      <Facts
        facts={[
          ['Vendor id', <Id key="id" value={vendor.provider_id} what="vendor id" full />],
          ['Owed now', <Money key="owed" usd={balance?.owed_usd_str ?? '0'} />],
          ['Counted in the last whole month', <Money key="month" usd={balance?.counted_last_month_usd_str ?? '0'} />],
          ['Paid in all', <Money key="paid" usd={balance?.paid_usd_str ?? '0'} />],
          ['Last invoice', last == null ? '–' : last.invoice],
          ['Its amount', last == null ? '–' : <Money key="last" usd={last.amount_usd_str} />],
          ['Paid by', last == null ? '–' : operatorName(last.paid_by)],
          ['Paid at', <Moment key="at" at={last?.paid_at} withAge />],
          ['Created', <Moment key="created" at={vendor.created_at} />],
        ]}
      />
    </Section>
  );
}

const models: Column<Schemas['ExternalModel']>[] = [
  { name: 'Model', cell: (model) => model.model_id },
  { name: 'Vendor’s name', cell: (model) => (model.local_model === '' ? 'the same' : model.local_model) },
  { name: 'Listed by the server', cell: (model) => (model.listed ? 'yes' : 'no') },
  { name: 'At once', numeric: true, cell: (model) => count(model.capacity) },
  {
    name: 'Context, tokens',
    numeric: true,
    cell: (model) => (model.context_length === 0 ? '–' : count(model.context_length)),
  },
  { name: 'Kinds', cell: (model) => model.capabilities.join(', ') },
];

function Server({ vendor }: { vendor: Vendor }) {
  const { endpoint } = vendor;
  if (endpoint === null) return null;
  return (
    <>
      <Section
        title="Server"
        json={endpoint}
        actions={
          <Group gap="xs">
            <EditVendor key={endpoint.updated_at} vendor={vendor} />
            <SetState vendor={vendor} />
          </Group>
        }
        note={
          endpoint.last_error === ''
            ? undefined
            : (probes[endpoint.last_error] ?? endpoint.last_error.replaceAll('_', ' '))
        }
      >
        <Facts
          facts={[
            [
              'Vendor',
              <State key="vendor" tone={vendor.state === 'active' ? 'good' : 'warning'}>
                {vendor.state}
              </State>,
            ],
            [
              'Server',
              <State key="state" tone={endpoint.state === 'healthy' ? 'good' : 'warning'}>
                {endpoint.state}
              </State>,
            ],
            [
              'Base URL',
              <span key="url" className="breakable">
                {endpoint.base_url}
              </span>,
            ],
            ['Key', endpoint.has_key ? 'kept, shown to nobody' : 'none'],
            ['Checked', <Moment key="checked" at={endpoint.checked_at} withAge />],
            ['Out of service since', <Moment key="disabled" at={endpoint.disabled_at} withAge />],
            ['Why', endpoint.disabled_reason === '' ? '–' : endpoint.disabled_reason],
            ['Endpoint id', <Id key="endpoint" value={endpoint.endpoint_id} what="endpoint id" full />],
          ]}
        />
      </Section>
      <Section title="Models">
        <DataTable
          caption="Models of the vendor"
          columns={models}
          rows={endpoint.models}
          id={(model) => model.model_id}
          empty="It serves no model."
        />
      </Section>
    </>
  );
}

/** Takes a vendor out of service, or brings it back. */
function SetState({ vendor }: { vendor: Vendor }) {
  const done = useDone();
  const [reason, setReason] = useState('');
  const suspend = vendor.state === 'active';
  return (
    <Act
      label={suspend ? 'Suspend' : 'Activate'}
      title={suspend ? `Suspend ${vendor.name}?` : `Activate ${vendor.name}?`}
      permission="run"
      destructive={suspend}
      facts={[
        ['Vendor', vendor.name],
        ['Models', String(vendor.endpoint?.models.length ?? 0)],
        ['Second person', 'None is needed'],
      ]}
      params={['reason']}
      fields={(form) => (
        <TextInput
          label="Reason"
          description="For the history. At most 150 characters."
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
          error={form.of('reason')}
        />
      )}
      run={() =>
        answer(
          api.PATCH('/api/v1/admin/vendors/{provider_id}', {
            params: { path: { provider_id: vendor.provider_id } },
            body: { state: suspend ? 'suspended' : 'active', reason: reason.trim() },
          }),
        )
      }
      done={() => done(suspend ? `${vendor.name} is suspended.` : `${vendor.name} is active.`)}
    >
      {suspend
        ? 'The vendor gets no new requests; those under way end as they began. Models that nobody else serves answer 503.'
        : 'The vendor gets requests again once its server is healthy.'}
    </Act>
  );
}
