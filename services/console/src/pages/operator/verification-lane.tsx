import type { Schemas } from '../../api/client';
import { State } from '../../ui/text';
import { laneReasons, laneTone } from './verification-words';

/** Which requests an offer gets, and why. */
export function Lane({ offering }: { offering: Schemas['Offering'] }) {
  return (
    <>
      <State tone={laneTone(offering.lane)}>{offering.lane}</State>
      {offering.lane_reason !== '' && ` ${laneReasons[offering.lane_reason] ?? offering.lane_reason}`}
      {offering.unjudged !== '' && `: ${offering.unjudged}`}
    </>
  );
}
