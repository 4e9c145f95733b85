// What vendors are owed.

import { useQuery } from '@tanstack/react-query';

import { answer, api, type Schemas } from '../../api/client';

export type Vendor = Schemas['Vendor'];
export type VendorBalance = Schemas['VendorBalance'];
export type VendorPayment = Schemas['VendorPayment'];

/** A bound of pages, so that a fault of the service never keeps the page asking. */
const maxPages = 50;

/** What every vendor is owed that has served a request. */
export function useVendorBalances() {
  return useQuery({ queryKey: ['admin', 'vendors', 'balances'], queryFn: allBalances, refetchInterval: 60_000 });
}

async function allBalances(): Promise<VendorBalance[]> {
  const list: VendorBalance[] = [];
  let cursor = '';
  for (let page = 0; page < maxPages; page++) {
    const next = await answer(
      api.GET('/api/v1/admin/vendors/balances', { params: { query: { cursor, page_size: 100 } } }),
    );
    list.push(...next.list);
    cursor = next.next_cursor;
    if (cursor === '') break;
  }
  return list;
}
