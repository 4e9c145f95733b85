import { Section } from '../../ui/page';
import { Facts } from '../../ui/table';
import { Id, Money, Moment, State } from '../../ui/text';
import { useChainName } from './chain-names';
import { Detail } from './detail';
import { History } from './history';
import { ProviderLink } from './links';
import { Approvals, PayoutActs } from './payout-acts';
import { sent, stateTone, stateWord, waitsFor, type Payout } from './payout-words';

/** A payout at length; closed while there is none. */
export function PayoutDetail({ payout, onClose }: { payout: Payout | undefined; onClose: () => void }) {
  return (
    <Detail title="Payout" open={payout !== undefined} onClose={onClose}>
      {payout !== undefined && (
        <>
          <PayoutFacts payout={payout} />
          <History subject={payout.payout_id} service="settlement" />
        </>
      )}
    </Detail>
  );
}

function PayoutFacts({ payout }: { payout: Payout }) {
  const name = useChainName();
  const waits = waitsFor(payout);
  return (
    <Section
      title="Where it stands"
      json={payout}
      actions={<PayoutActs payout={payout} />}
      note={waits === '' ? undefined : waits}
    >
      <Facts
        facts={[
          [
            'State',
            <State key="state" tone={stateTone(payout.state)}>
              {stateWord(payout.state)}
            </State>,
          ],
          ['Payout id', <Id key="id" value={payout.payout_id} what="payout id" full />],
          ['Provider', <ProviderLink key="provider" id={payout.provider_id} />],
          ['Approvals', <Approvals key="approvals" payout={payout} />],
          ['Taken from earnings', <Money key="gross" usd={payout.gross_usd_str} />],
          ['Fee', <Money key="fee" usd={payout.fee_usd_str} />],
          ['Worth of what is sent', <Money key="net" usd={payout.net_usd_str} />],
          ['Sent', sent(payout)],
          ['Rate of the coin', payout.rate_usd_str === '' ? '–' : <Money key="rate" usd={payout.rate_usd_str} />],
          ['Chain', name(payout.chain_id)],
          ['Address', <Id key="address" value={payout.address} what="address" full />],
          ['Transaction', <Id key="tx" value={payout.tx_hash} what="transaction" full />],
          ['Asked', <Moment key="asked" at={payout.requested_at} withAge />],
          ['Changed', <Moment key="changed" at={payout.changed_at} withAge />],
          ['Why it ended', payout.reason === '' ? '–' : payout.reason],
        ]}
      />
    </Section>
  );
}
