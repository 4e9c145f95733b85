import { Anchor } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { count } from '../../format/quantity';
import { DataTable, type Column } from '../../ui/table';
import { Id, Moment, Money } from '../../ui/text';
import { billingWord } from './words';

type Used = Schemas['UsedRequest'];

interface RequestTableProps {
  requests: Used[];
  empty: ReactNode;
  keyName?: (id: string) => string;
  more?: () => void;
  loadingMore?: boolean;
}

/** Settled requests. Each leads to its receipt. */
export function RequestTable({ requests, empty, keyName, more, loadingMore }: RequestTableProps) {
  const columns: Column<Used>[] = [
    {
      name: 'Settled',
      cell: (request) => (
        <Anchor component={Link} to={`/requests/${request.request_id}`} inherit>
          <Moment at={request.at} />
          <span className="visually-hidden">, receipt of request {request.request_id}</span>
        </Anchor>
      ),
    },
    { name: 'Model', cell: (request) => <span className="breakable">{request.model}</span> },
    ...(keyName === undefined
      ? []
      : [{ name: 'Key', cell: (request: Used) => <span className="breakable">{keyName(request.key_id)}</span> }]),
    { name: 'Tokens', numeric: true, cell: (request) => amount(request) },
    { name: 'Paid by', cell: (request) => billingWord(request.billing_type) },
    { name: 'Charged', numeric: true, cell: (request) => <Money usd={request.charged_usd_str} /> },
    { name: 'Request', wideOnly: true, cell: (request) => <Id value={request.request_id} what="request id" /> },
  ];
  return (
    <DataTable
      caption="Settled requests"
      columns={columns}
      rows={requests}
      id={(request) => request.request_id}
      empty={empty}
      more={more}
      loadingMore={loadingMore}
    />
  );
}

/** What was done, in the unit of its price. */
function amount(request: Used): string {
  if (request.images > 0) return `${count(request.images)} images`;
  if (request.audio_seconds > 0) return `${count(request.audio_seconds)} s of audio`;
  return `${count(request.prompt_tokens)} in, ${count(request.completion_tokens)} out`;
}
