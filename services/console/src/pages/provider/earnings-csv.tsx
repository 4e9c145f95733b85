import { answer, api } from '../../api/client';
import { CsvButton } from '../../ui/download';

/** A button that saves the provider's lines of batched days. The days are UTC days, both included. */
export function EarningsCsv({ from, to, disabled = false }: { from: string; to: string; disabled?: boolean }) {
  return (
    <CsvButton
      name={`earnings-${from}-${to}.csv`}
      rows="All lines of the days"
      disabled={disabled}
      load={() =>
        answer(api.GET('/api/v1/provider/earnings.csv', { params: { query: { from, to } }, parseAs: 'stream' }))
      }
    />
  );
}
