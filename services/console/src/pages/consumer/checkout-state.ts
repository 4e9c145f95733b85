import type { Schemas } from '../../api/client';
import type { Tone } from '../../ui/text';

interface CheckoutStateWords {
  word: string;
  tone: Tone;
  text: string;
  /** Whether it can still be paid. */
  open: boolean;
}

/** The state of a payment in words. */
export function checkoutState(checkout: Schemas['ConsumerCheckout']): CheckoutStateWords {
  switch (checkout.state) {
    case 'CHECKOUT_STATE_PAID':
      return {
        word: 'Paid',
        tone: 'good',
        text: checkout.purpose === 'plan' ? 'The plan is paid.' : 'The credit is in the account.',
        open: false,
      };
    case 'CHECKOUT_STATE_EXPIRED':
      return { word: 'Expired', tone: 'neutral', text: 'It was not paid in time. Nothing was charged.', open: false };
    default:
      return {
        word: 'Waiting for the payment',
        tone: 'busy',
        text: 'This page asks for its state every 3 seconds.',
        open: true,
      };
  }
}
