package main

// all returns every dashboard.
func all() []dashboard {
	return []dashboard{
		business(), gateway(), catalog(), ledger(), signer(), settlement(), router(), hub(), verifier(),
	}
}

const (
	requests  = "svc_edge_gateway_request_duration_seconds"
	inference = `{http_route=~"/v1/(chat/completions|completions|embeddings|images/generations|audio/transcriptions|` +
		`playground/chat)"}`
	// paid leaves out what plans, the free tier and the platform pay.
	paid = `{source="payg"}`
)

func business() dashboard {
	return dashboard{"business", "Business", []row{
		{"Objectives", []panel{
			limit("Requests without admission", "percentunit", 0.001, "slo:admission_bad:ratio_rate1h", "1 h").
				also("slo:admission_bad:ratio_rate6h", "6 h").noted("At most 0.1 % over 30 days."),
			limit("Streams to whose first token more than 250 ms were added", "percentunit", 0.01,
				"slo:first_token_late:ratio_rate1h", "1 h").also("slo:first_token_late:ratio_rate6h", "6 h").
				noted("At most 1 % over 30 days."),
			limit("Time in which usage was settled late", "percentunit", 0.001, "slo:settlement_late:ratio_avg1h", "1 h").
				also("slo:settlement_late:ratio_avg6h", "6 h").noted("At most 0.1 % over 30 days."),
			limit("Ledger drift", "none", 1, "max(svc_billing_drift)", "rows").noted("0, always."),
		}},
		{"Demand", []panel{
			rate("Requests for inference", "reqps", requests+"_count"+inference, "http_route"),
			rate("Requests by model", "reqps", "gen_ai_server_request_duration_seconds_count", "gen_ai_request_model"),
			rate("Tokens billed", "none", "gen_ai_client_token_usage_sum", "gen_ai_token_type").noted("Tokens a second."),
			rate("Refusals by code", "reqps", "svc_edge_gateway_refusals_total"+inference, "code"),
		}},
		{"Money", []panel{
			graph("Revenue", "currencyUSD", "sum(increase(svc_billing_charged_nano_usd_total[1h])) / 1e9", "charged in 1 h").
				noted("What requests were charged. The books count, not this."),
			graph("Payouts of providers", "currencyUSD", "sum(increase(svc_billing_payouts_nano_usd_total[1h])) / 1e9",
				"earned in 1 h").noted("Without plans, whose month pays from a pool."),
			graph("Take rate", "percentunit", "1 - sum(increase(svc_billing_payouts_nano_usd_total"+paid+"[1h])) / "+
				"sum(increase(svc_billing_charged_nano_usd_total"+paid+"[1h]))", "of charges to credit"),
			rate("Charges by who pays", "none", "svc_billing_charged_nano_usd_total", "source").noted("Nano-USD a second."),
			graph("Not charged", "currencyUSD", "sum(increase(svc_billing_shortfalls_nano_usd_total[1h])) / 1e9", "in 1 h"),
			graph("Credit set aside", "currencyUSD", "max(svc_billing_held_nano_usd) / 1e9", "by open holds"),
		}},
		{"Supply", []panel{
			graph("Providers that are connected", "none", "max(svc_router_sessions)", "sessions").
				noted("A provider with several nodes has several sessions."),
			graph("Offers", "none", "max(svc_router_candidates)", "that consumers may be sent to").
				also("max(svc_verifier_offers_connected)", "connected"),
			graph("Models", "none", "max(svc_catalog_models)", "in the catalog").also("max(svc_router_models)", "offered"),
		}},
	}}
}

func gateway() dashboard {
	const job = "edge-gateway"
	return dashboard{job, "edge-gateway", []row{
		{"Requests (rate, errors, duration)", []panel{
			rate("Requests", "reqps", requests+"_count", "http_route"),
			rate("Requests by status", "reqps", requests+"_count", "http_response_status_code"),
			rate("Refusals by code", "reqps", "svc_edge_gateway_refusals_total", "code"),
			quantiles("Duration of requests for inference", requests, inference),
			quantiles("Time to first content", "svc_edge_gateway_first_content_seconds", ""),
			withWarn(quantiles("Of it added by the marketplace", "svc_edge_gateway_first_content_added_seconds", ""), 0.25),
		}},
		{"Models", []panel{
			quantiles("Duration of requests whose model is known", "gen_ai_server_request_duration_seconds", ""),
			quantiles("Time to first token", "gen_ai_server_time_to_first_token_seconds", ""),
			quantiles("Time of each further token", "gen_ai_server_time_per_output_token_seconds", ""),
			rate("Tokens relayed", "none", "svc_edge_gateway_completion_tokens_total", "instance").noted("Tokens a second."),
			rate("Attempts", "reqps", "svc_edge_gateway_attempts_total", "result"),
		}},
		{"What it has (utilization, saturation, errors)", []panel{
			graph("Completions under way", "none", "sum by (instance) (svc_edge_gateway_completions_open)", "{{instance}}").
				noted("The HorizontalPodAutoscaler looks at it."),
			rate("Connections refused", "reqps", "svc_edge_gateway_connections_refused_total", "instance").
				noted("Empty while none is refused."),
			rate("Reports dropped", "reqps", "svc_edge_gateway_reports_dropped_total", "instance").
				noted("Empty while none is dropped."),
			method("Admit", "svc.billing.v1.AdmissionService/Admit"),
			method("Select", "svc.router.v1.RouterService/Select"),
			method("Dispatch", "svc.hub.v1.DispatchService/Dispatch").noted("Until the end of the answer."),
		}},
		peers(job), process(job),
	}}
}

// method is the duration of one call that the gateway makes.
func method(title, name string) panel {
	return quantiles(title, "rpc_client_call_duration_seconds", in("edge-gateway", `rpc_method="`+name+`"`))
}

func withWarn(p panel, at float64) panel {
	p.warn = at
	return p
}

func catalog() dashboard {
	const job = "catalog"
	return dashboard{job, job, []row{calls("catalog"),
		{"The catalog", []panel{
			graph("Models", "none", "max(svc_catalog_models)", "served"),
			graph("Watchers", "none", "sum by (instance) (svc_catalog_watchers)", "{{instance}}"),
			graph("Age of what is online", "s", "max by (instance) (svc_catalog_supply_age_seconds)", "{{instance}}"),
		}},
		process(job)}}
}

func ledger() dashboard {
	const job = "billing-ledger"
	return dashboard{job, job, []row{calls("billing"),
		{"Admission", []panel{
			rate("Admissions", "reqps", "svc_billing_admissions_total", "outcome"),
			graph("Requests that wait for a batch", "none", "max by (instance) (svc_billing_admissions_waiting)",
				"{{instance}}"),
			graph("Accounts whose requests are admitted from memory", "none", "max by (instance) (svc_billing_slices_open)",
				"{{instance}}"),
			graph("Holds that may not be written yet", "none", "max by (instance) (svc_billing_holds_unwritten)",
				"{{instance}}"),
			rate("Failed turns of slices", "reqps", "svc_billing_slice_turns_failed_total", "instance"),
			graph("Open holds", "none", "max(svc_billing_holds_open)", "holds"),
			graph("Credit set aside", "none", "max(svc_billing_held_nano_usd)", "nano-USD"),
			graph("Oldest hold", "s", "max(svc_billing_oldest_hold_seconds)", "oldest"),
			rate("Holds released", "reqps", "svc_billing_holds_released_total", "").
				also("sum(rate(svc_billing_holds_expired_total["+interval+"]))", "expired"),
			rate("Answers kept for an Idempotency-Key", "reqps", "svc_billing_keyed_answers_total", "outcome").
				noted("Empty while nobody sends one."),
			graph("Kept answers", "bytes", "max(svc_billing_kept_bytes)", "bytes"),
		}},
		{"Settlement of usage", []panel{
			rate("Usage", "reqps", "svc_billing_usage_events_total", "result"),
			limit("Age of the oldest usage", "s", 60, "max by (instance) (svc_billing_usage_lag_seconds)", "{{instance}}"),
			graph("Usage that waits", "none", "max(svc_billing_usage_waiting)", "messages"),
			graph("Reviews", "none", "max(svc_billing_orphan_reviews)", "by a gateway's count"),
			rate("Earnings held", "reqps", "svc_billing_earnings_held_total", "rule").noted("Empty while none is held."),
		}},
		{"The books", []panel{
			limit("Drift", "none", 1, "max by (instance) (svc_billing_drift)", "{{instance}}"),
			rate("Comparisons of the ledger with itself", "reqps", "svc_billing_comparisons_total", "instance"),
			graph("Synchronous standby", "none", "min(svc_billing_synchronous_standby)", "1: there is one"),
			limit("Days not cleared", "none", 1, "max(svc_billing_days_overdue)", "days"),
			limit("Age of passbooks", "s", 300, "max(svc_billing_passbook_lag_seconds)", "oldest"),
		}},
		{"Users and payments", []panel{
			limit("Card payments that need a person", "none", 1, "max(svc_billing_card_alarms_open)", "open"),
			rate("Card payments that came to need one", "reqps", "svc_billing_card_alarms_total", "reason").
				noted("Empty while none does."),
			limit("Oldest event of the card processor", "s", 3600, "max(svc_billing_card_lag_seconds)", "oldest"),
			rate("Letters", "reqps", "svc_billing_letters_total", "outcome").noted("Empty while none is sent."),
			rate("Refresh tokens that came twice", "reqps", "svc_billing_refresh_tokens_reused_total", "").
				noted("Empty while none does."),
			rate("Keys that stayed under an older pepper", "reqps", "svc_billing_key_renewals_failed_total", "instance"),
			rate("Tries to deliver events to accounts", "reqps", "svc_billing_webhook_tries_total", "problem").
				noted("Empty while no account has an endpoint."),
			rate("Events of accounts dropped", "reqps", "svc_billing_webhook_events_dropped_total", "").
				noted("Empty while none is dropped."),
		}},
		process(job)}}
}

func signer() dashboard {
	const job = "chain-signer"
	return dashboard{job, job, []row{calls("signer").rarely(),
		{"Signatures", []panel{
			rate("Signed", "reqps", "svc_signer_signed_total", "key").noted("Empty while nothing is signed."),
			rate("Refused", "reqps", "svc_signer_refused_total", "reason").noted("Empty while nothing is refused."),
		}},
		process(job)}}
}

func router() dashboard {
	const job = "router"
	return dashboard{job, job, []row{calls("router"),
		{"What is online", []panel{
			graph("Hubs in the view", "none", "svc_router_hubs", "{{instance}}"),
			graph("Sessions in the view", "none", "svc_router_sessions", "{{instance}}"),
			graph("Models and offers", "none", "max(svc_router_models)", "models").
				also("max(svc_router_candidates)", "offers"),
			rate("Sessions and hubs without room", "reqps", "svc_router_sessions_dropped_total", "instance"),
			rate("Messages out of bounds", "reqps", "svc_router_events_refused_total", "instance"),
		}},
		{"Selection (saturation)", []panel{
			graph("Slots booked", "none", "svc_router_bookings", "{{instance}}"),
			graph("Requests that wait for a slot", "none", "svc_router_waiting", "{{instance}}"),
			rate("Providers passed over", "reqps", "svc_router_rejects_total", "reason"),
			rate("Warm-ups asked for", "reqps", "svc_router_warmups_total", "instance"),
		}},
		{"Health and trust", []panel{
			graph("Breakers", "none", "sum by (instance) (svc_router_breakers_open)", "open, {{instance}}").
				also("sum by (instance) (svc_router_breakers_suspected)", "suspected, {{instance}}"),
			graph("Pairs whose health is known", "none", "svc_router_known_pairs", "{{instance}}"),
			graph("Pairs by lane", "none", "max by (lane) (svc_router_trust_pairs)", "{{lane}}"),
			rate("Reports of the verifier dropped", "reqps", "svc_router_trust_dropped_total", "instance"),
			limit("Restrictions without room", "none", 1, "max by (instance) (svc_router_trust_full)", "{{instance}}"),
		}},
		process(job)}}
}

func hub() dashboard {
	const job = "provider-hub"
	each := func(title, unit, name string) panel {
		return graph(title, unit, "svc_provider_hub_"+name, "{{instance}}")
	}
	flow := func(title, unit, name string) panel {
		return rate(title, unit, "svc_provider_hub_"+name+"_total", "instance")
	}
	return dashboard{job, job, []row{calls("hub"),
		{"Agents", []panel{
			each("Sockets", "none", "sockets").noted("The HorizontalPodAutoscaler looks at it."),
			each("Sessions", "none", "sessions"),
			each("Connections that wait to be recorded", "none", "presence_waiting"),
			flow("Frames from agents", "none", "frames_received"), flow("Frames to agents", "none", "frames_sent"),
			flow("Bytes of answers", "Bps", "data_received"),
			flow("Connections without room to be recorded", "reqps", "presence_forgotten"),
			flow("Answers to an earlier connection", "reqps", "strays"),
			flow("Keys that stayed under an older pepper", "reqps", "key_renewals_failed"),
			each("External endpoints held", "none", "external_endpoints"),
			each("External endpoints with a session", "none", "external_sessions"),
			flow("Probes of external endpoints that failed", "reqps", "external_probes_failed"),
			flow("External endpoints left because their leases ended", "reqps", "external_leases_lost"),
			rate("Providers that time moved", "reqps", "svc_provider_hub_providers_swept_total", "status").
				noted("Empty while none is."),
		}},
		{"Attempts (rate, errors)", []panel{
			rate("Attempts", "reqps", "svc_provider_hub_attempts_total", "outcome"),
			each("Requests under way", "none", "slots"),
			each("Bytes that nobody has taken yet", "bytes", "held"),
			rate("Answers that were too long", "reqps", "svc_provider_hub_answers_excess_total", "").
				noted("Empty while none is."),
			flow("Reports of attempts without room", "reqps", "attempts_dropped"),
			flow("Answers under another model's name", "reqps", "answers_renamed").
				also("sum(rate(svc_provider_hub_answers_forgotten_total["+interval+"]))", "not recorded"),
			rate("Warm-ups", "reqps", "svc_provider_hub_warmups_total", "outcome").noted("Empty while none is asked for."),
			rate("Challenges", "reqps", "svc_provider_hub_challenges_total", "end").
				noted("Empty while the verifier challenges nobody."),
		}},
		{"Usage (saturation)", []panel{
			limit("Journal", "percentunit", 0.5, "svc_provider_hub_journal_used", "{{instance}}").
				noted("Not ready from 50 %, no requests from 80 %."),
			each("Bytes of the journal", "bytes", "journal_bytes"),
			limit("No space", "none", 1, "svc_provider_hub_journal_no_space", "{{instance}}"),
			each("Usage not settled", "none", "unsettled"),
			quantiles("From disk to the first publication", "svc_provider_hub_publish_lag_seconds", ""),
			each("Void attempts that wait for NATS", "none", "voids"),
			flow("Void attempts lost", "reqps", "voids_lost"),
		}},
		{"Claims and receipts", []panel{
			graph("Claimed tokens to texts", "none", "topk(5, svc_provider_hub_claims_ratio)", "{{provider_id}} {{model}}").
				noted("Empty until a provider has answered often enough."),
			graph("Claimed prompts to estimates", "none", "topk(5, svc_provider_hub_claims_prompt_ratio)",
				"{{provider_id}} {{model}}").noted("Empty until a provider has answered often enough."),
			flow("Receipts forwarded", "reqps", "receipts_forwarded"),
			flow("Receipts refused", "reqps", "receipts_refused"),
			flow("Receipts dropped", "reqps", "receipts_dropped"),
		}},
		process(job)}}
}

func verifier() dashboard {
	const job = "verifier"
	return dashboard{job, job, []row{calls("verifier").rarely(),
		{"Probes", []panel{
			rate("Probes", "reqps", "svc_verifier_probes_total", "end").noted("Empty while probes are off."),
			graph("Probes without an end", "none", "max(svc_verifier_probes_queued)", "probes"),
			limit("Longest due", "s", 3600, "max(svc_verifier_probes_lag_seconds)", "oldest"),
			rate("Observations", "reqps", "svc_verifier_observations_total", "family").noted("Empty while there are none."),
			graph("Spent today", "currencyUSD", "max(svc_verifier_spent_today_nano_usd) / 1e9", "expected"),
			rate("Claims that cannot be", "reqps", "svc_verifier_absurd_claims_total", "").
				noted("Empty while there are none."),
		}},
		{"Verdicts", []panel{
			graph("Offers by level", "none", "max by (level) (svc_verifier_offerings)", "{{level}}"),
			graph("Offers connected", "none", "max(svc_verifier_offers_connected)", "offers"),
			rate("Verdicts", "reqps", "svc_verifier_verdicts_total", "kind").noted("Empty while there are none."),
			rate("Steps not taken", "reqps", "svc_verifier_steps_held_total", "reason").noted("Empty while there are none."),
			limit("Verdicts that wait for an operator", "none", 1, "max(svc_verifier_verdicts_waiting)", "verdicts"),
			limit("Common causes", "none", 1, "max(svc_verifier_common_causes)", "strata"),
		}},
		{"Effects", []panel{
			rate("Tries", "reqps", "svc_verifier_effects_total", "end").noted("Empty while there are none."),
			graph("Not carried out", "none", "max(svc_verifier_effects_pending)", "pending").
				also("max(svc_verifier_effects_refused)", "refused for good"),
			limit("Oldest", "s", 600, "max(svc_verifier_effects_lag_seconds)", "oldest"),
			rate("Messages out of bounds", "reqps", "svc_verifier_messages_refused_total", "").noted("Empty while none is."),
		}},
		peers(job), process(job)}}
}
