// What a change makes of a model, field by field.

import { DataTable } from '../../ui/table';
import { labels, type Change } from './model-draft';

export function ChangeTable({ caption, changes, empty }: { caption: string; changes: Change[]; empty: string }) {
  return (
    <DataTable
      caption={caption}
      columns={[
        { name: 'Field', cell: (change: Change) => labels[change.field] },
        { name: 'Now', cell: (change) => <span className="breakable tabular">{change.from}</span> },
        { name: 'Then', cell: (change) => <span className="breakable tabular">{change.to}</span> },
      ]}
      rows={changes}
      id={(change) => change.field}
      empty={empty}
    />
  );
}
