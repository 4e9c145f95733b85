import { Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { Anchor, Loaded, Section } from '../../ui/page';
import { DataTable, type Column } from '../../ui/table';
import { Id } from '../../ui/text';
import type { Model } from './catalog';
import { bytes } from './figures';

type File = Schemas['ModelFile'];

/** The files that a provider of an open model must have, against which its machine is checked. */
export function WeightsSection({ model }: { model: Model }) {
  const query = useQuery({
    queryKey: ['weights', model.id],
    queryFn: async () =>
      (await answer(api.GET('/api/v1/models/{model_id}/files', { params: { path: { model_id: model.id } } }))).data,
    staleTime: 5 * 60_000,
  });
  if (query.data?.file_count === 0) return null; // the catalog knows none, and nothing is checked against them
  return (
    <Section
      title="Weights"
      json={query.data}
      note={
        <>
          A provider must have these files as they are: verification asks for their hashes.
          {query.data !== undefined && query.data !== null && ` ${bytes(query.data.total_size_bytes)} in all.`}
        </>
      }
    >
      <Loaded query={query}>
        {(files) => (
          <DataTable
            caption={`Files of ${model.name}`}
            columns={columns}
            rows={files?.files ?? []}
            id={(file) => file.filename}
            empty="The catalog names no files."
          />
        )}
      </Loaded>
    </Section>
  );
}

const columns: Column<File>[] = [
  { name: 'File', cell: (file) => <Source file={file} /> },
  { name: 'Size', numeric: true, cell: (file) => bytes(file.size_bytes) },
  { name: 'Hash', cell: (file) => <Id value={file.hash} what={`${file.algorithm} of ${file.filename}`} /> },
];

/** Only an https address becomes a link, whatever else the catalog has there. */
function Source({ file }: { file: File }) {
  if (!file.url.startsWith('https://'))
    return (
      <Text span inherit className="breakable">
        {file.filename}
      </Text>
    );
  return (
    <Anchor href={file.url} target="_blank" rel="noopener noreferrer" className="breakable" inherit>
      {file.filename}
    </Anchor>
  );
}
