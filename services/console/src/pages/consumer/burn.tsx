import type { Schemas } from '../../api/client';
import { Figure } from '../../ui/page';
import { Money } from '../../ui/text';
import { daysLeft } from './attention';

/** What is spent a day, and how long the credit lasts at that rate. */
export function Burn({ balance }: { balance: Schemas['GetBalanceResponse'] }) {
  return (
    <>
      <Figure label="Spent a day" note="The mean of today and the 6 days before.">
        <Money usd={balance.burn_usd_per_day_str} rounded />
      </Figure>
      <Figure
        label="Lasts"
        note={
          balance.days_left === null
            ? 'Nothing was charged in the last 7 days.'
            : 'At that rate. What the plan covers takes no credit.'
        }
      >
        {balance.days_left === null ? '–' : daysLeft(balance.days_left)}
      </Figure>
    </>
  );
}
