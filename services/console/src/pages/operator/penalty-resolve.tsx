// The decision about a penalty.

import { Group, List } from '@mantine/core';

import { answer, api } from '../../api/client';
import { Act, RoleNote } from './act';
import { needs } from './allowed';
import { useDone } from './lists';
import type { Penalty } from './penalty-words';
import { shareOf } from './verification-words';

const permission = needs['POST /api/v1/admin/penalties/{penalty_id}/resolve'];

export function Resolve({ penalty }: { penalty: Penalty }) {
  const done = useDone();
  const final = penalty.state === 'PENALTY_STATE_REVERSED' || penalty.state === 'PENALTY_STATE_EXECUTED';
  if (final) return null;
  const facts: [string, string][] = [
    ['To whom', `provider ${penalty.provider_id}`],
    [
      'Takes',
      `${shareOf(penalty.share_basis_points)} of the collateral${penalty.removes ? ', and the provider was removed' : ''}`,
    ],
    ['Second person', 'none is needed: of two operators who decide, the first counts'],
  ];
  function resolve(uphold: boolean, reason: string) {
    const path = { penalty_id: penalty.penalty_id };
    return answer(
      api.POST('/api/v1/admin/penalties/{penalty_id}/resolve', { params: { path }, body: { uphold, reason } }),
    );
  }
  return (
    <>
      <RoleNote permission={permission} />
      <Group mt="sm">
        <Act
          label="Refuse the appeal"
          title="Refuse the appeal?"
          permission={permission}
          blocked={notUpheld(penalty)}
          destructive
          facts={facts}
          reason="Why, in 1 to 500 characters. The provider reads it."
          run={({ reason }) => resolve(true, reason)}
          done={() => done('The appeal is refused.')}
        >
          The penalty is upheld and executed by itself within seconds: what is in escrow is forfeited, on chains and by
          card. Until then it can still be reversed; afterwards it cannot.
        </Act>
        <Act
          label="Reverse the penalty"
          title="Reverse the penalty?"
          permission={permission}
          destructive
          facts={facts}
          reason="Why, in 1 to 500 characters. The provider reads it."
          run={({ reason }) => resolve(false, reason)}
          done={() => done('The penalty is reversed.')}
        >
          <List size="sm">
            <List.Item>What is in escrow goes back to the provider.</List.Item>
            <List.Item>
              The observations that led to it are void, and it does not count toward the next penalty.
            </List.Item>
            <List.Item>The cap of the window and the lane that came with it are lifted.</List.Item>
            {penalty.removes && (
              <List.Item>The provider is let back in: its keys work again, and activation follows by itself.</List.Item>
            )}
            <List.Item>It cannot be undone.</List.Item>
          </List>
        </Act>
      </Group>
    </>
  );
}

function notUpheld(penalty: Penalty): string {
  if (penalty.state === 'PENALTY_STATE_PROPOSED')
    return 'Nobody has appealed. Without an appeal it is executed by itself.';
  return penalty.state === 'PENALTY_STATE_UPHELD' ? 'The appeal is refused already.' : '';
}
