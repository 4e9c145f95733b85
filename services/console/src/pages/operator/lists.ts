// Lists that the API answers page by page.

import { notifications } from '@mantine/notifications';
import { useInfiniteQuery, useQueryClient, type QueryKey } from '@tanstack/react-query';
import { useEffect } from 'react';

/** A page of a list that goes on behind a cursor. */
interface CursorPage {
  next_cursor: string;
}

/** A page of a list that is counted. */
interface CountedPage<Row> {
  list: Row[];
  page: number;
  page_size: number;
  total: number;
}

interface Options {
  enabled?: boolean;
  /** Asks again every so many milliseconds. */
  every?: number;
  /** What is listed never changes, so it is not asked for again by itself. */
  fixed?: boolean;
}

/** A list behind a cursor. `load` gets the cursor of a page; it is empty for the first. */
export function useCursorList<Page extends CursorPage>(
  key: QueryKey,
  load: (cursor: string) => Promise<Page>,
  options: Options = {},
) {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => load(pageParam),
    initialPageParam: '',
    getNextPageParam: (last) => (last.next_cursor === '' ? undefined : last.next_cursor),
    enabled: options.enabled ?? true,
    refetchInterval: options.every ?? false,
    ...(options.fixed === true ? { staleTime: Infinity } : {}),
  });
  return {
    query,
    pages: query.data?.pages ?? [],
    more: query.hasNextPage ? () => void query.fetchNextPage() : undefined,
    loadingMore: query.isFetchingNextPage,
  };
}

/** So many pages of a counted list are loaded without being asked for, so that its filters see all of it. */
const eager = 10;

/** A counted list, whose filters are applied here because its route has none. `load` gets the number of a page, from 1. */
export function useCountedList<Row>(key: QueryKey, load: (page: number) => Promise<CountedPage<Row>>) {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => load(pageParam),
    initialPageParam: 1,
    getNextPageParam: (last) =>
      last.page * last.page_size < last.total && last.list.length > 0 ? last.page + 1 : undefined,
  });
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = query;
  const loaded = data?.pages.length ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isError && loaded < eager) void fetchNextPage();
  }, [hasNextPage, isFetching, isError, loaded, fetchNextPage]);
  return {
    query,
    rows: data?.pages.flatMap((page) => page.list) ?? [],
    total: data?.pages.at(-1)?.total ?? 0,
    more: hasNextPage ? () => void fetchNextPage() : undefined,
    loadingMore: query.isFetchingNextPage,
  };
}

/** Says that an act is done, and has all that operators see asked for again. */
export function useDone(): (message: string) => void {
  const queries = useQueryClient();
  return (message) => {
    notifications.show({ message, closeButtonProps: { 'aria-label': 'Close' } });
    void queries.invalidateQueries({ queryKey: ['admin'] });
  };
}
