package stripetest

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// metadataOf reads the metadata of a form below a prefix.
func metadataOf(form url.Values, prefix string) map[string]any {
	out := map[string]any{}
	for key, values := range form {
		if name, ok := strings.CutPrefix(key, prefix+"["); ok {
			out[strings.TrimSuffix(name, "]")] = values[0]
		}
	}
	return out
}

func (s *Server) makeSessionLocked(form url.Values) object {
	amount, _ := strconv.ParseInt(form.Get("line_items[0][price_data][unit_amount]"), 10, 64)
	expires, _ := strconv.ParseInt(form.Get("expires_at"), 10, 64)
	o := object{
		"amount_total": amount, "currency": form.Get("line_items[0][price_data][currency]"), "expires_at": expires,
		"mode": form.Get("mode"), "status": "open", "payment_status": "unpaid", "metadata": metadataOf(form, "metadata"),
		"paid_metadata": metadataOf(form, "payment_intent_data[metadata]"),
		"plan_metadata": metadataOf(form, "subscription_data[metadata]"),
	}
	id := s.putLocked("cs", "checkout.session", o)
	o["url"] = "https://checkout.example/" + id
	return o
}

// chargeLocked makes a succeeded payment. What the card processor keeps is 2.9 % and 30 cents.
func (s *Server) chargeLocked(amount int64, card string, metadata any) string {
	balance := s.putLocked("txn", "balance_transaction", object{"amount": amount, "fee": (amount*29+500)/1000 + 30})
	ch := s.putLocked("ch", "charge", object{"amount": amount, "amount_captured": amount, "balance_transaction": balance,
		"payment_method_details": object{"type": "card", "card": object{"fingerprint": card}}})
	return s.putLocked("pi", "payment_intent", object{"amount": amount, "amount_received": amount, "status": "succeeded",
		"latest_charge": ch, "metadata": metadata})
}

// Pay pays a page with a card, and returns the payment, or the subscription that began.
func (s *Server) Pay(session, card string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[session]
	o["status"], o["payment_status"], o["url"] = "complete", "paid", nil
	amount := o["amount_total"].(int64)
	var made string
	if o["mode"] == "subscription" {
		made = s.putLocked("sub", "subscription", object{"status": "active", "metadata": o["plan_metadata"],
			"cancel_at_period_end": false, "card": card, "amount": amount})
		o["subscription"] = made
		s.invoiceLocked(made)
	} else {
		made = s.chargeLocked(amount, card, o["paid_metadata"])
		o["payment_intent"] = made
	}
	s.eventLocked("checkout.session.completed", session)
	return made
}

// Renew begins the next period of a subscription with a paid invoice, and returns the invoice.
func (s *Server) Renew(subscription string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.invoiceLocked(subscription)
}

// Decline begins the next period of a subscription with an invoice that its card does not pay, and returns the invoice.
func (s *Server) Decline(subscription string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.openInvoiceLocked(subscription)
	s.objects[subscription]["status"] = "past_due"
	s.eventLocked("invoice.payment_failed", id)
	return id
}

// Collect has the card pay an invoice that it did not pay before.
func (s *Server) Collect(invoice string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payInvoiceLocked(invoice)
}

// invoiceLocked adds a paid invoice.
func (s *Server) invoiceLocked(subscription string) string {
	id := s.openInvoiceLocked(subscription)
	s.payInvoiceLocked(id)
	return id
}

// openInvoiceLocked adds an invoice of a subscription's next period.
func (s *Server) openInvoiceLocked(subscription string) string {
	sub := s.objects[subscription]
	start := s.clock.Now()
	if end, ok := sub["period_end"].(int64); ok {
		start = time.Unix(end, 0)
	}
	end := start.AddDate(0, 1, 0).Unix()
	sub["period_end"], sub["items"] = end, object{"object": "list", "data": []object{{"current_period_end": end}}}
	id := s.putLocked("in", "invoice", object{
		"total": sub["amount"], "currency": "usd", "status": "open", "attempt_count": 1, "of_subscription": subscription,
		"status_transitions": object{"paid_at": nil},
		"parent": object{"type": "subscription_details",
			"subscription_details": object{"subscription": subscription, "metadata": sub["metadata"]}},
		"lines":    object{"object": "list", "data": []object{{"period": object{"start": start.Unix(), "end": end}}}},
		"payments": object{"object": "list", "data": []object{}},
	})
	sub["latest_invoice"] = id
	return id
}

func (s *Server) payInvoiceLocked(id string) {
	o := s.objects[id]
	sub := s.objects[o["of_subscription"].(string)]
	pi := s.chargeLocked(o["total"].(int64), sub["card"].(string), map[string]any{})
	o["status"], o["status_transitions"] = "paid", object{"paid_at": s.clock.Now().Unix()}
	o["payments"] = object{"object": "list", "data": []object{{"status": "paid",
		"payment": object{"type": "payment_intent", "payment_intent": pi}}}}
	s.putLocked("inpay", "invoice_payment", object{"invoice": id, "of_payment": pi, "status": "paid"})
	sub["status"] = "active"
	s.eventLocked("invoice.paid", id)
}

func (s *Server) makeRefundLocked(form url.Values) (int, object) {
	amount, _ := strconv.ParseInt(form.Get("amount"), 10, 64)
	pi := s.objects[form.Get("payment_intent")]
	back := amount
	for _, id := range s.order {
		o := s.objects[id]
		went := (o["object"] == "refund" || o["object"] == "dispute") && o["payment_intent"] == form.Get("payment_intent")
		if went && o["status"] != "failed" && o["status"] != "won" {
			back += o["amount"].(int64)
		}
	}
	if pi == nil || back > pi["amount_received"].(int64) {
		return fault(http.StatusBadRequest, "charge_already_refunded")
	}
	o := object{"amount": amount, "currency": "usd", "status": "succeeded", "metadata": metadataOf(form, "metadata"),
		"payment_intent": form.Get("payment_intent")}
	id := s.putLocked("re", "refund", o)
	s.eventLocked("refund.created", id)
	return http.StatusOK, s.expandedLocked(o, form)
}

// Dispute takes an amount of a payment back, and returns the dispute.
func (s *Server) Dispute(payment string, amount int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.putLocked("dp", "dispute", object{"amount": amount, "currency": "usd", "status": "needs_response",
		"payment_intent": payment, "balance_transactions": []object{{"id": "txn_taken", "amount": -amount}}})
	s.eventLocked("charge.dispute.funds_withdrawn", id)
	return id
}

// Win gives back what a dispute took.
func (s *Server) Win(dispute string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.objects[dispute]
	o["status"] = "won"
	o["balance_transactions"] = append(o["balance_transactions"].([]object),
		object{"id": "txn_back", "amount": o["amount"].(int64)})
	s.eventLocked("charge.dispute.funds_reinstated", dispute)
}

// Close ends a dispute against us.
func (s *Server) Close(dispute string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[dispute]["status"] = "lost"
	s.eventLocked("charge.dispute.closed", dispute)
}

// FailRefund has the card not take a refund.
func (s *Server) FailRefund(refund string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[refund]["status"] = "failed"
	s.eventLocked("refund.failed", refund)
}
