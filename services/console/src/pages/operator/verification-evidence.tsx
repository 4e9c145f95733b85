// The evidence of a verdict, piece by piece, as it was sealed.

import { Button, Group, Text } from '@mantine/core';
import type { ReactNode } from 'react';

import { answer, api, type Schemas } from '../../api/client';
import { CodeBlock } from '../../ui/code';
import { Loaded, Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id } from '../../ui/text';
import { bytes, hex } from './binary';
import { useCursorList } from './lists';

type Piece = Schemas['EvidencePiece'];

/** Longer pieces are shown in part: they can hold megabytes of log-probabilities. The JSON view has all of it. */
const shownCharacters = 20_000;

interface EvidenceProps {
  verdictId: string;
  /** The verdict where a list has it. Its evidence may be gone. */
  known: Schemas['Verdict'] | undefined;
  children: (verdict: Schemas['Verdict']) => ReactNode;
}

/** Shows a verdict by `children`, and the pieces that it rests on. */
export function Evidence({ verdictId, known, children }: EvidenceProps) {
  const path = { verdict_id: verdictId };
  const list = useCursorList(
    ['admin', 'verification', 'evidence', verdictId],
    (cursor) =>
      answer(
        api.GET('/api/v1/admin/verification/verdicts/{verdict_id}/evidence', { params: { path, query: { cursor } } }),
      ),
    { fixed: true },
  );
  const verdict = known ?? list.pages[0]?.verdict ?? undefined;
  const pieces = list.pages.flatMap((page) => page.pieces);
  return (
    <>
      {verdict !== undefined && children(verdict)}
      <Section
        title="Evidence"
        json={list.pages}
        note={
          'What was asked, answered and scored, in the order in which `verifier replay -file` reads it. ' +
          'It is kept for 90 days, of penalties for 180 days after their end.'
        }
      >
        <Loaded query={list.query}>
          {() => <Pieces pieces={pieces} more={list.more} loadingMore={list.loadingMore} />}
        </Loaded>
      </Section>
    </>
  );
}

function Pieces({
  pieces,
  more,
  loadingMore,
}: {
  pieces: Piece[];
  more: (() => void) | undefined;
  loadingMore: boolean;
}) {
  return (
    <>
      <Text size="sm" mb="sm" aria-live="polite">
        {pieces.length} {pieces.length === 1 ? 'part' : 'parts'} loaded{more === undefined ? '.' : ', and more.'}
      </Text>
      {pieces.map((piece) => (
        <OnePiece key={`${piece.piece_id} ${piece.offset}`} piece={piece} />
      ))}
      {more !== undefined && (
        <Group mt="sm">
          <Button size="xs" variant="default" onClick={more} loading={loadingMore}>
            Show more evidence
          </Button>
        </Group>
      )}
    </>
  );
}

function OnePiece({ piece }: { piece: Piece }) {
  const content = bytes(piece.json);
  const text = content === null ? piece.json : new TextDecoder().decode(content);
  const length = content?.length ?? 0;
  const shown = pretty(text, piece.offset === 0 && length === piece.total);
  return (
    <details>
      <summary>
        Piece {piece.piece_id.slice(0, 8)}, bytes {piece.offset.toLocaleString('en-US')} to{' '}
        {(piece.offset + length).toLocaleString('en-US')} of {piece.total.toLocaleString('en-US')}
      </summary>
      <Facts
        facts={[
          ['Piece', <Id key="id" value={piece.piece_id} what="piece id" full />],
          ['Leaf in the day’s tree', <Id key="leaf" value={hex(piece.leaf)} what="leaf" />],
          ['Link of the piece before', <Id key="previous" value={hex(piece.previous)} what="link" />],
          ['Own link', <Id key="link" value={hex(piece.link)} what="link" />],
        ]}
      />
      <CodeBlock code={shown.slice(0, shownCharacters)} label={`Piece ${piece.piece_id}`} />
      {shown.length > shownCharacters && <Text size="sm">The rest is in the JSON view.</Text>}
    </details>
  );
}

/** A whole piece with line breaks; a part of one as it is. */
function pretty(text: string, whole: boolean): string {
  if (!whole || text.length > shownCharacters) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
