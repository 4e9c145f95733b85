// The files of a model's weights: what providers fetch, and what their fingerprints are compared with.

import { List, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answer, api } from '../../api/client';
import { ApiError } from '../../api/error';
import { compact } from '../../format/quantity';
import { Loaded, Section } from '../../ui/page';
import { DataTable, Facts } from '../../ui/table';
import { Id } from '../../ui/text';
import { Act } from './act';
import { needs } from './allowed';
import type { Model } from './catalog-data';
import { useDone } from './lists';
import { filesDiff, readFiles, urlProblem, type WeightFile } from './weights-check';

interface Weights {
  files: WeightFile[];
  totalBytes: number;
  source: string;
  composite: string;
}

async function load(model: string): Promise<Weights> {
  const [files, catalog] = await Promise.all([
    answer(api.GET('/api/v1/models/{model_id}/files', { params: { path: { model_id: model } } })),
    answer(api.GET('/api/v1/models/catalog')),
  ]);
  const known = catalog.data?.models.find((one) => one.model_id === model);
  return {
    files: files.data?.files ?? [],
    totalBytes: files.data?.total_size_bytes ?? 0,
    source: known?.weight_source_url ?? '',
    composite: known?.composite_hash ?? '',
  };
}

export function ModelFiles({ model }: { model: Model }) {
  const query = useQuery({ queryKey: ['admin', 'catalog', 'files', model.id], queryFn: () => load(model.id) });
  return (
    <Section
      title="Model files"
      json={query.data?.files}
      note="Providers fetch these files, and the verifier asks for their fingerprints. After a new set it calibrates anew."
    >
      <Loaded query={query}>{(weights) => <Files key={weights.composite} model={model} weights={weights} />}</Loaded>
    </Section>
  );
}

function Files({ model, weights }: { model: Model; weights: Weights }) {
  return (
    <Stack>
      {weights.files.length > 0 && (
        <Facts
          facts={[
            ['Files', weights.files.length],
            ['Bytes', compact(weights.totalBytes)],
            ['Source', weights.source || '–'],
            ['Composite hash', <Id key="hash" value={weights.composite} what="composite hash" />],
          ]}
        />
      )}
      <DataTable
        caption={`Files of ${model.id}`}
        columns={[
          { name: 'File', cell: (file: WeightFile) => <span className="breakable">{file.filename}</span> },
          { name: 'SHA-256', cell: (file) => <Id value={file.hash} what="SHA-256" /> },
          { name: 'Bytes', numeric: true, cell: (file) => file.size_bytes.toLocaleString('en-US') },
        ]}
        rows={weights.files}
        id={(file) => file.filename}
        empty="Nothing is known of its weights, so nobody can be asked for a fingerprint. Replace the files to list them."
      />
      <Replace model={model} weights={weights} />
    </Stack>
  );
}

function Replace({ model, weights }: { model: Model; weights: Weights }) {
  const done = useDone();
  const [source, setSource] = useState(weights.source);
  const [text, setText] = useState(weights.files.length === 0 ? '' : JSON.stringify(weights.files, null, 2));
  const badSource = source === '' ? '' : urlProblem(source, 256);
  const { files, problem } = readFiles(text, source);
  const diff = filesDiff(weights.files, files);
  const wrong = badSource === '' ? problem : `The source ${badSource}`;
  return (
    <Act
      label={weights.files.length === 0 ? 'List the files' : 'Replace the files'}
      title={`Files of ${model.id}`}
      permission={needs['PUT /api/v1/admin/model-files/{model_id}']}
      destructive={weights.files.length > 0 && files.length === 0 && wrong === ''}
      facts={[
        ['Added', diff.added.length],
        ['Removed', diff.removed.length],
        ['Changed', diff.changed.length],
        ['Second person', 'none is needed'],
      ]}
      params={['weight_source_url', 'files']}
      fields={(form) => (
        <>
          <TextInput
            label="Source"
            description="An https address that all files' addresses begin with, or empty."
            value={source}
            onChange={(event) => setSource(event.currentTarget.value.trim())}
            error={form.of('weight_source_url') ?? (badSource === '' ? undefined : `It ${badSource}`)}
          />
          <Textarea
            label="Files"
            description="JSON: [{filename, hash, size_bytes, url}, …]. hash is SHA-256 in hexadecimal. Empty takes all files away."
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            error={form.of('files') ?? (problem || undefined)}
            autosize
            minRows={6}
            maxRows={16}
            spellCheck={false}
            styles={{ input: { fontFamily: 'monospace' } }}
          />
          {wrong === '' && <DiffNames diff={diff} />}
        </>
      )}
      run={() => {
        if (wrong !== '') throw new ApiError(wrong, { status: 400, code: 'invalid_value' });
        const body = { weight_source_url: source, files };
        return answer(
          api.PUT('/api/v1/admin/model-files/{model_id}', { params: { path: { model_id: model.id } }, body }),
        );
      }}
      done={() => done('The files are replaced.')}
    >
      The files are replaced as a whole and at once. Providers that serve the old ones differ from then on, until they
      fetch the new ones.
    </Act>
  );
}

function DiffNames({ diff }: { diff: ReturnType<typeof filesDiff> }) {
  const lines = [
    ...diff.added.map((name) => `+ ${name}`),
    ...diff.removed.map((name) => `− ${name}`),
    ...diff.changed.map((name) => `≠ ${name}`),
  ];
  if (lines.length === 0) return <Text size="sm">Nothing would change.</Text>;
  const shown = lines.slice(0, 20);
  return (
    <List size="sm" aria-label="What would change">
      {shown.map((line) => (
        <List.Item key={line} className="breakable">
          {line}
        </List.Item>
      ))}
      {lines.length > shown.length && <List.Item>and {lines.length - shown.length} more</List.Item>}
    </List>
  );
}
