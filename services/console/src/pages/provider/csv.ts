import { answer, api } from '../../api/client';

/** The provider's lines of batched days, as CSV. The days are UTC days, both included. */
export async function earningsCsv(from: string, to: string): Promise<Blob> {
  return answer(api.GET('/api/v1/provider/earnings.csv', { params: { query: { from, to } }, parseAs: 'blob' }));
}
