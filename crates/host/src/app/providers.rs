//! The providers of a configuration, with their keys, retries and breakers.

use super::error::OpenError;
use crate::plan::{Passes, ProviderPlan};
use indexmap::IndexSet;
use std::sync::Arc;
use url::{Position, Url};
use valvehouse_config::{
    self as config, Api, ExposedModels, Secret, SecretSource, SecretUnread, Timeouts, Wire,
};
use valvehouse_core::breaker::BreakerSettings;
use valvehouse_core::context::Credential;
use valvehouse_core::error::Error;
use valvehouse_core::metrics::BalancerTarget;
use valvehouse_core::provider::Provider;
use valvehouse_net::Client;
use valvehouse_providers::{
    Anthropic, Credentials, CustomTools, Demo, Extras, Ollama, OpenAi, OpenAiResponses, Upstream,
};
use valvehouse_wire::service::{Protocol, ServiceKind};

/// Selects whether the keys of providers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKeys {
    /// The keys are read, so that models can be called.
    Read,
    /// The keys are not read; models cannot be called.
    Left,
}

pub(super) fn provider(
    settings: &config::ProviderSettings,
    keys: ProviderKeys,
    clients: &mut Vec<Client>,
    extras: &Arc<Extras>,
) -> Result<ProviderPlan, OpenError> {
    let problem = |what: String| OpenError::Config(format!("provider `{}`: {what}", settings.name));
    if settings.kind.wire == Wire::Demo {
        // The demo provider runs in this process and cannot fail.
        let never = BreakerSettings { failure_threshold: 0, ..BreakerSettings::default() };
        let demo = Credentials::fixed(Arc::new(Demo::default()));
        let demo = Upstream::new(demo).with_breaker(never);
        return Ok(plan(settings, Arc::new(demo)));
    }
    let client = client(settings.timeouts, clients).map_err(|error| problem(error.to_string()))?;
    let (mut all, mut is_keyless) = (Vec::new(), !settings.is_paid_by_callers);
    for (position, own) in settings.of_deployments().iter().enumerate() {
        let read = match keys {
            ProviderKeys::Read => {
                client.prepare(&own.base_url);
                read_keys(own).map_err(|error| problem(error.to_string()))?
            }
            ProviderKeys::Left => Vec::new(),
        };
        is_keyless &= read.is_empty();
        let targets = targets(own, position, &read);
        let made: Result<Vec<_>, _> = match read.is_empty() {
            _ if own.is_paid_by_callers => of_callers(own, client.clone()).map(|one| vec![one]),
            true => service(own, client.clone(), None).map(|one| vec![Credentials::fixed(one)]),
            false => read.into_iter().map(|key| credentials(own, client.clone(), key)).collect(),
        };
        all.extend(targets.into_iter().zip(made.map_err(|error| problem(error.to_string()))?));
    }
    let credentials = match all.len() {
        1 => all.remove(0).1,
        _ => Credentials::several(all),
    };
    let mut upstream = Upstream::new(credentials)
        .with_retry(settings.retry)
        .with_breaker(settings.breaker)
        .within(settings.timeouts.total)
        .with_extras(extras.clone())
        .with_service(service_kind(settings));
    if is_keyless {
        let help = settings.key_help();
        if keys == ProviderKeys::Read && settings.usual_key().is_some() {
            tracing::warn!(provider = settings.name, "it has no key: {help}");
        }
        upstream = upstream.keyless(help);
    }
    Ok(plan(settings, Arc::new(upstream)))
}

/// A key with its file, if it may change at run time, and its weight.
type ReadKey = (Secret, Option<SecretSource>, u32);

/// Returns a target for each key of a deployment, or for one without a key: the keys share the weight of the deployment.
fn targets(own: &config::ProviderSettings, position: usize, keys: &[ReadKey]) -> Vec<BalancerTarget> {
    let deployment = own.deployments.first();
    let weights = if keys.is_empty() { vec![1] } else { keys.iter().map(|(.., weight)| *weight).collect() };
    let sum: u32 = weights.iter().sum();
    let target = |(number, weight): (usize, &u32)| {
        let (key, weight) = (format!("key {}", number + 1), f64::from(*weight));
        let (name, weight) = match deployment {
            Some(own) if weights.len() == 1 => (own.name.clone(), f64::from(own.weight)),
            Some(own) => (format!("{}, {key}", own.name), f64::from(own.weight) * weight / f64::from(sum)),
            None => (key, weight),
        };
        BalancerTarget { name, deployment: position, weight }
    };
    weights.iter().enumerate().map(target).collect()
}

fn plan(settings: &config::ProviderSettings, provider: Arc<dyn Provider>) -> ProviderPlan {
    ProviderPlan {
        provider,
        list: Arc::default(),
        kind: settings.kind.name,
        addresses: addresses(settings),
        passes: passes(settings),
        refuses_unlisted: settings.refuses_unlisted,
        routes: settings.routes.clone(),
        is_paid_by_callers: settings.is_paid_by_callers,
    }
}

/// Returns the hosts of the addresses of a provider, each once.
fn addresses(settings: &config::ProviderSettings) -> Vec<String> {
    let own = settings.of_deployments().into_iter().filter_map(|own| Url::parse(&own.base_url).ok());
    let hosts = own.map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned());
    hosts.collect::<IndexSet<_>>().into_iter().collect()
}

/// Returns credentials for a provider that each caller pays with its own key.
fn of_callers(settings: &config::ProviderSettings, client: Client) -> Result<Credentials, Error> {
    let bare = service(settings, client.clone(), None)?;
    let settings = settings.clone();
    let make = move |own: &Credential| match settings.kind.wire {
        Wire::Anthropic if own.is_bearer => {
            let made = Anthropic::new(&settings.name, &settings.base_url, client.clone())?;
            Ok(custom_tools(&settings, Arc::new(made.with_bearer(&*own.token))))
        }
        _ => service(&settings, client.clone(), Some((&*own.token).into())),
    };
    Ok(Credentials::of_callers(bare, make))
}

/// Returns a client with these timeouts. Providers with equal timeouts share it, and with it connections and
/// certificates.
fn client(timeouts: Timeouts, clients: &mut Vec<Client>) -> Result<Client, Error> {
    if let Some(client) = clients.iter().find(|client| client.timeouts() == timeouts) {
        return Ok(client.clone());
    }
    let client = Client::with_timeouts(timeouts)?;
    clients.push(client.clone());
    Ok(client)
}

/// Returns credentials of a key, which is read again if it is in a file.
fn credentials(
    settings: &config::ProviderSettings,
    client: Client,
    (key, file, _): ReadKey,
) -> Result<Credentials, Error> {
    match file {
        Some(file) => {
            let settings = settings.clone();
            let make = move |key| service(&settings, client.clone(), Some(key));
            Credentials::rotating(file, key, make)
        }
        None => service(settings, client, Some(key)).map(Credentials::fixed),
    }
}

/// Returns the keys of a provider. The usual environment variable may be missing.
fn read_keys(settings: &config::ProviderSettings) -> Result<Vec<ReadKey>, SecretUnread> {
    let read = settings.keys().map(|(source, weight)| {
        let file = matches!(source, SecretSource::File(_)).then(|| source.clone());
        Ok((source.read()?, file, weight))
    });
    let mut keys = read.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() && !settings.is_paid_by_callers {
        let usual = settings.usual_key().map(|name| SecretSource::Env(name.to_owned()));
        keys.extend(usual.and_then(|usual| usual.read().ok()).map(|key| (key, None, 1)));
    }
    Ok(keys)
}

/// Returns a provider for the configured protocol.
fn service(
    settings: &config::ProviderSettings,
    client: Client,
    key: Option<Secret>,
) -> Result<Arc<dyn Provider>, Error> {
    let (name, url) = (&settings.name, &settings.base_url);
    // An empty key is not sent.
    let key = key.unwrap_or_else(|| "".into());
    let service: Arc<dyn Provider> = match settings.kind.wire {
        Wire::Demo => Arc::new(Demo::default()),
        Wire::OpenAi if settings.api == Api::Responses => {
            Arc::new(OpenAiResponses::new(name, url, client)?.of_kind(settings.kind.name).with_key(key))
        }
        Wire::OpenAi => Arc::new(OpenAi::new(name, url, client)?.of_kind(settings.kind.name).with_key(key)),
        Wire::Anthropic => Arc::new(Anthropic::new(name, url, client)?.with_key(key)),
        Wire::Ollama => Arc::new(Ollama::new(name, url, client)?.with_key(key)),
    };
    Ok(custom_tools(settings, service))
}

/// Returns a provider that accepts custom tools. Only OpenAI's own API and the Responses API do so natively.
fn custom_tools(settings: &config::ProviderSettings, service: Arc<dyn Provider>) -> Arc<dyn Provider> {
    let is_native = matches!(settings.kind.name, "openai" | "azure") || settings.api == Api::Responses;
    if is_native { service } else { Arc::new(CustomTools::new(service)) }
}

/// Returns the kind of the service, whose rules requests are adapted to.
fn service_kind(settings: &config::ProviderSettings) -> ServiceKind {
    let protocol = match settings.kind.wire {
        Wire::Anthropic => Protocol::Messages,
        Wire::Ollama => Protocol::Ollama,
        Wire::OpenAi if settings.api == Api::Responses => Protocol::Responses,
        Wire::OpenAi | Wire::Demo => Protocol::Chat,
    };
    let host = url::Url::parse(&settings.base_url).ok();
    let host = host.as_ref().and_then(|url| url.host_str()).unwrap_or("");
    ServiceKind::of(protocol, host, settings.kind.name)
}

fn passes(settings: &config::ProviderSettings) -> Passes {
    match &settings.models {
        ExposedModels::All => Passes::Everything,
        ExposedModels::Listed(names) if names.is_empty() => Passes::Nothing,
        ExposedModels::Listed(names) => Passes::These(names.clone()),
    }
}
