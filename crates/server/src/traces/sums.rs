//! The sums of a request beside the facts of its trace: who pays, which service answered, tokens and cost.

use crate::recording;
use valvehouse_core::trace::Trace;
use valvehouse_host::app::App;
use valvehouse_host::usage;
use valvehouse_json::Json;
use valvehouse_store::COST_UNITS;

/// Returns a request in a list with its sums.
pub(super) fn summary(app: &App, trace: &Trace) -> Json {
    with_sums(app, trace, trace.summary())
}

/// Returns a request with its steps and its sums.
pub(super) fn detail(app: &App, trace: &Trace) -> Json {
    with_sums(app, trace, trace.detail())
}

fn with_sums(app: &App, trace: &Trace, facts: Json) -> Json {
    let totals = trace.totals();
    let prices = recording::prices(&app.host.snapshot(), &trace.request.model);
    let cost = prices
        .filter(|prices| !prices.is_empty())
        .map(|prices| usage::cost(totals.tokens, trace.token_kinds()[0], &prices) as f64 / COST_UNITS);
    let sums: [(&str, Json); 7] = [
        ("key", trace.key().into()),
        ("provider", totals.provider().into()),
        ("prompt_tokens", totals.tokens[0].into()),
        ("completion_tokens", totals.tokens[1].into()),
        ("first_ms", totals.first.map(|first| first.as_micros() as f64 / 1_000.0).into()),
        ("cost", cost.into()),
        ("ended_by", totals.ended_by.as_ref().map(|(plugin, _)| &**plugin).into()),
    ];
    for (name, value) in sums {
        // A new object accepts any key.
        facts.put(name, value);
    }
    facts
}
