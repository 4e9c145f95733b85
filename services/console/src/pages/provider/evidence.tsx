// What a provider was asked and answered in the observations that a penalty rests on. Bodies are strangers' bytes:
// they are shown as plain text.

import { Button, Drawer, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useInfiniteQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';
import { save } from '../../ui/download';
import { Empty, Loaded } from '../../ui/page';
import { Id, Moment } from '../../ui/text';
import { kindWord } from './words';

type Body = Schemas['ProviderEvidence']['list'][number];

/** How much of a body is shown. The whole of it can be kept as a file. */
const shown = 8000;

export function Evidence({ penalty }: { penalty: string }) {
  const [open, { open: show, close }] = useDisclosure(false);
  return (
    <>
      <Button size="xs" variant="default" onClick={show}>
        Read the evidence
      </Button>
      <Drawer
        opened={open}
        onClose={close}
        position="right"
        size="xl"
        title="Evidence of the penalty"
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        {open && <Bodies penalty={penalty} />}
      </Drawer>
    </>
  );
}

function Bodies({ penalty }: { penalty: string }) {
  const query = useInfiniteQuery({
    queryKey: ['provider', 'evidence', penalty],
    initialPageParam: '',
    queryFn: ({ pageParam }) =>
      answer(
        api.GET('/api/v1/provider/penalties/{penalty_id}/evidence', {
          params: { path: { penalty_id: penalty }, query: { cursor: pageParam === '' ? undefined : pageParam } },
        }),
      ),
    getNextPageParam: (last) => (last.next_cursor === '' ? undefined : last.next_cursor),
    staleTime: Infinity, // evidence never changes
    gcTime: 0, // it may be large
  });
  const list = query.data?.pages.flatMap((page) => page.list) ?? [];
  return (
    <Stack>
      <Text size="sm">
        What you were asked, and what you answered, byte for byte. It is kept for 180 days after the end of the penalty.
      </Text>
      <Loaded query={query}>
        {() =>
          list.length === 0 ? (
            <Empty>The penalty rests on no question to you.</Empty>
          ) : (
            <>
              {list.map((body, n) => (
                <One key={`${n} ${body.at} ${body.side} ${body.offset}`} body={body} />
              ))}
              {query.hasNextPage && (
                <Button variant="default" onClick={() => void query.fetchNextPage()} loading={query.isFetchingNextPage}>
                  Show more
                </Button>
              )}
            </>
          )
        }
      </Loaded>
    </Stack>
  );
}

function One({ body }: { body: Body }) {
  const bytes = decode(body.body);
  const text = new TextDecoder().decode(bytes.subarray(0, shown));
  const part =
    bytes.length < body.total
      ? `, bytes ${body.offset + 1} to ${body.offset + bytes.length} of ${body.total}`
      : `, ${body.total} bytes`;
  return (
    <div>
      <Group justify="space-between" gap="xs" mb={4}>
        <Text size="sm">
          <strong>{body.side === 'question' ? 'You were asked' : 'You answered'}</strong> ({kindWord(body.kind)}) at{' '}
          <Moment at={body.at} />
          {part}
        </Text>
        <Button
          size="compact-sm"
          variant="subtle"
          color="gray"
          onClick={() => save(new Blob([bytes]), `${body.side}-${body.at}-${body.offset}.txt`)}
        >
          Keep as a file
        </Button>
      </Group>
      {body.request_id !== '' && (
        <Text size="sm" component="div" mb={4}>
          Request <Id value={body.request_id} what="request id" />
        </Text>
      )}
      <pre className="code" tabIndex={0} aria-label={body.side === 'question' ? 'Question' : 'Answer'}>
        {text}
        {bytes.length > shown ? ' …' : ''}
      </pre>
    </div>
  );
}

/** The bytes of a base64 text; none where it is no such text. */
function decode(base64: string): Uint8Array<ArrayBuffer> {
  try {
    return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
