// Chains: how far each is read, what is halted and why, what the platform holds, what arrived, and recovery.

import { Page } from '../../ui/page';
import { CancelCall } from './call-cancel';
import { Adoption } from './adoption';
import { ChainStates } from './chain-states';
import { Reserves } from './reserves';
import { SendingHalts } from './sending-halts';
import { Transfers } from './transfers';

export default function Chains() {
  return (
    <Page
      title="Chains and reserves"
      lead="Deposits, payouts and collateral stand on chains. A chain that is halted credits nothing and pays nothing until somebody acts."
    >
      <ChainStates />
      <SendingHalts />
      <Reserves />
      <Transfers />
      <Adoption />
      <CancelCall />
    </Page>
  );
}
