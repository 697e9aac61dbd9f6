//! The providers in the output of `list` and `explain`: their addresses and open circuit breakers.

use std::io;
use valvehouse_config::{Config, ExposedModels, ProviderSettings, Wire};
use valvehouse_core::breaker::OpenState;
use valvehouse_core::text::count;
use valvehouse_host::SharedStatus;
use valvehouse_json::Json;
use valvehouse_terminal::{Console, Paint, clean, table};

/// Shows a table of the providers if there are any besides the demo, and the causes of open circuit breakers.
pub(super) fn show(config: &Config, standing: &SharedStatus, out: &Console) -> io::Result<()> {
    let paint = out.results();
    if config.providers.iter().all(|provider| provider.kind.wire == Wire::Demo) {
        return Ok(());
    }
    let head = ["PROVIDER", "KIND", "STATE", "MODELS", "ADDRESS"];
    let mut rows = vec![head.map(|word| paint.dim(word)).to_vec()];
    rows.extend(config.providers.iter().map(|provider| row(provider, standing, paint)));
    out.line(&format!("\n{}", table(&rows)))?;
    for provider in &config.providers {
        for open in standing.provider(&provider.name) {
            out.line(&format!("\n{}: {}", paint.yellow(&provider.name), open_breaker_text(open)))?;
        }
    }
    Ok(())
}

/// Returns the providers as JSON.
pub(super) fn as_json(config: &Config, standing: &SharedStatus) -> Json {
    let providers = config.providers.iter().map(|provider| {
        let open = standing.provider(&provider.name).iter().map(|open| {
            Json::from([
                ("failures", open.failures.into()),
                ("next_try_seconds", open.next_try.as_secs_f64().into()),
                ("cause", open.cause.as_str().into()),
            ])
        });
        Json::from([
            ("name", provider.name.as_str().into()),
            ("kind", provider.kind.name.into()),
            ("base_url", provider.base_url.as_str().into()),
            ("models", models(&provider.models).into()),
            ("open_breakers", open.collect::<Vec<_>>().into()),
        ])
    });
    providers.collect::<Vec<_>>().into()
}

/// Returns the providers that answer for a model, in order: `openai/gpt-4.1, then groq/llama`.
pub(super) fn answering(config: &Config, model: &str) -> Option<String> {
    let model = config.models.iter().find(|known| known.name == model)?;
    let first = [(model.provider.as_str(), model.model.as_str())];
    let all = first.into_iter().chain(config.fallbacks(model));
    let names: Vec<String> = all.map(|(provider, model)| format!("{provider}/{model}")).collect();
    Some(names.join(", then "))
}

fn row(provider: &ProviderSettings, standing: &SharedStatus, paint: Paint) -> Vec<String> {
    let has_open_breaker = !standing.provider(&provider.name).is_empty();
    vec![
        paint.bold(&provider.name),
        provider.kind.name.to_owned(),
        if has_open_breaker { paint.red("breaker open") } else { paint.green("used") },
        models(&provider.models),
        provider.base_url.clone(),
    ]
}

fn models(offered: &ExposedModels) -> String {
    match offered {
        ExposedModels::All => "*".to_owned(),
        ExposedModels::Listed(names) if names.is_empty() => "-".to_owned(),
        ExposedModels::Listed(names) => names.join(" "),
    }
}

fn open_breaker_text(open: &OpenState) -> String {
    let (breaks, seconds) = (count(open.failures, "time"), open.next_try.as_secs_f64().ceil());
    let cause = clean(&open.cause).replace('\n', " ");
    format!(
        "does not get requests for a model: the circuit breaker opened after it failed {breaks} in a short time; requests use the fallbacks of \
         the model or get 503, and the next attempt is within {seconds} s\n  last: {cause}"
    )
}
