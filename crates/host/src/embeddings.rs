//! Embeddings of texts for scripts, from the models of the host.

use crate::coverage::EMBEDDINGS;
use crate::plan::ProviderPlan;
use crate::snapshot::Snapshot;
use bytes::Bytes;
use futures::StreamExt;
use std::sync::Arc;
use valvehouse_core::chat::message;
use valvehouse_core::context::{Turn, TurnFacts};
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_core::filter::{Chain, ChainOutcome, Hook};
use valvehouse_core::provider::{PassthroughBody, Provider, RelayRequest};
use valvehouse_dialect::call::resources::{EmbedRequest, Embeddings};
use valvehouse_json::Json;

/// The maximum size of a provider's response in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// Embeds texts for a plugin. The filters of the endpoint run, except the plugin and its callers.
///
/// # Errors
/// Returns an error if the model is unknown or its provider has no embeddings, the rejection of a filter, or
/// the error of the provider.
pub(crate) async fn embed(
    snapshot: &Snapshot,
    plugin: String,
    request: EmbedRequest,
    turn: &Turn,
) -> Result<Embeddings, Error> {
    let Some(model) = request.model.or_else(|| snapshot.plan().embedding_model.clone()) else {
        return Embeddings::computed(request.texts).await;
    };
    let ready = snapshot.ready(&model, &[])?;
    let provider = provider(snapshot, &model, ready.kernel.provider().map(|provider| provider.name()))?;
    let upstream = ready.kernel.settings().model.clone().unwrap_or_else(|| model.clone());
    let callers = [turn.facts().callers.clone(), vec![plugin]].concat();
    let facts = turn.facts().clone();
    let exchange = facts.exchange.as_ref().map(|exchange| Arc::new(exchange.beside()));
    let facts = TurnFacts {
        model: ready.facts,
        models: ready.models,
        callers: callers.clone(),
        states: None,
        exchange,
        load: Some(turn.load().clone()),
        nesting: turn.nesting(),
        ..facts
    };
    let own = Turn::new(facts, turn.context().fork(), turn.events().clone());
    let chain = snapshot.covering(EMBEDDINGS, &model, &[]);
    let filters =
        chain.filters().iter().filter(|filter| !callers.iter().any(|caller| caller == filter.name()));
    let chain = Chain::new(filters.cloned().collect());
    let texts = filtered(&chain, &model, request.texts, &own).await?;
    let vectors = request_vectors(&*provider, &upstream, &texts, &own).await?;
    Ok(Embeddings { model, vectors })
}

/// The provider of a model, if it serves embeddings.
fn provider(snapshot: &Snapshot, model: &str, name: Option<&str>) -> Result<Arc<dyn Provider>, Error> {
    let serves = |plan: &&ProviderPlan| {
        let is_allowed =
            plan.routes.as_ref().is_none_or(|routes| routes.iter().any(|route| route == EMBEDDINGS));
        is_allowed && plan.provider.has_route(EMBEDDINGS)
    };
    let plans = &snapshot.plan().providers;
    let own = plans.iter().find(|plan| Some(plan.provider.name()) == name);
    own.filter(serves).map(|plan| plan.provider.clone()).ok_or_else(|| {
        let names: Vec<&str> = plans.iter().filter(serves).map(|plan| plan.provider.name()).collect();
        let how = match names.as_slice() {
            [] => "add a provider that does, such as one of kind `openai`".to_owned(),
            names => format!("name a model of {}", names.join(" or ")),
        };
        Error::Request {
            message: format!(
                "cannot embed texts with the model `{model}`: its provider does not serve embeddings; {how}"
            ),
            param: Some("model"),
            code: Some("route_not_found"),
            kind: RequestErrorKind::NotFound,
        }
    })
}

/// Runs the filters on the texts, each as a message of the user.
async fn filtered(chain: &Chain, model: &str, texts: Vec<String>, turn: &Turn) -> Result<Vec<String>, Error> {
    if chain.filters().is_empty() {
        return Ok(texts);
    }
    let messages: Vec<Json> = texts.iter().map(|text| message::user(text.as_str())).collect();
    let body =
        Json::from([("model", model.into()), ("endpoint", EMBEDDINGS.into()), ("messages", messages.into())]);
    let edited = match chain.run(Hook::Inlet, body, turn).await? {
        ChainOutcome::Done(body) => body.list("messages"),
        ChainOutcome::Skipped(_) => {
            return Err(Error::invalid(
                "a filter cannot answer an embeddings request in place of the model",
                None,
            ));
        }
    };
    if edited.len() != texts.len() {
        let (got, expected) = (edited.len(), texts.len());
        return Err(Error::Host(format!(
            "the inlet of a filter returned {got} of {expected} messages: for embeddings each text is a message, and \
             none may be removed"
        )));
    }
    Ok(edited.iter().map(|message| message::text_of(message).to_string()).collect())
}

/// Requests the embeddings from the provider.
async fn request_vectors(
    provider: &dyn Provider,
    model: &str,
    texts: &[String],
    turn: &Turn,
) -> Result<Vec<Vec<f32>>, Error> {
    let input: Vec<Json> = texts.iter().map(|text| text.as_str().into()).collect();
    let body =
        Json::from([("model", model.into()), ("input", input.into()), ("encoding_format", "float".into())]);
    let body = body.encode().map_err(|error| Error::invalid(error.to_string(), None))?;
    turn.exchange().begin_call();
    let relayed = provider.relay(RelayRequest {
        method: "POST",
        path: EMBEDDINGS,
        query: None,
        headers: vec![
            ("content-type".into(), "application/json".into()),
            ("accept".into(), "application/json".into()),
        ],
        body: PassthroughBody::Whole(Bytes::from(body)),
        model,
        exchange: turn.exchange(),
    });
    let mut stream = relayed.await?.body.into_stream();
    let mut bytes = Vec::new();
    while let Some(some) = stream.next().await {
        bytes.extend_from_slice(&some?);
        if bytes.len() > MAX_ANSWER {
            return Err(wrong(provider, "an answer of more than 64 MiB"));
        }
    }
    let answer = Json::parse(&bytes).map_err(|error| wrong(provider, &format!("invalid JSON: {error}")))?;
    let data = answer.list("data");
    let mut vectors = vec![Vec::new(); texts.len()];
    for (place, one) in data.iter().enumerate() {
        let index =
            one.get("index").and_then(|index| index.as_i64()).and_then(|index| usize::try_from(index).ok());
        let numbers = one.list("embedding");
        let vector: Option<Vec<f32>> = numbers.iter().map(|number| Some(number.as_f64()? as f32)).collect();
        match (vectors.get_mut(index.unwrap_or(place)), vector) {
            (Some(own), Some(vector)) => *own = vector,
            _ => return Err(wrong(provider, "a vector that is not one of numbers for one of the texts")),
        }
    }
    match vectors.iter().all(|vector| !vector.is_empty()) {
        true => Ok(vectors),
        false => Err(wrong(provider, "fewer vectors than texts")),
    }
}

fn wrong(provider: &dyn Provider, what: &str) -> Error {
    let message = format!("provider {} returned {what} for embeddings", provider.name());
    Error::Provider { message: message.as_str().into(), timeout: false }
}
