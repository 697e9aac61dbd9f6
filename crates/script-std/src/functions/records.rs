//! The records that the host stores for scripts and users: their owners, and work on them while a script waits.

use super::argument::{RhaiResultOf, fail, running, unfit};
use rhai::Dynamic;
use std::time::Duration;
use valvehouse_core::error::Error;
use valvehouse_core::provider::BUILTIN_EMBEDDING;
use valvehouse_dialect::budget;
use valvehouse_dialect::call::Call;
use valvehouse_dialect::call::resources::Embeddings;
use valvehouse_dialect::value::json_of;
use valvehouse_grants::Capability;
use valvehouse_json::Json;
use valvehouse_store::{StoreError, StoreErrorKind, VectorOwner};

/// The number of compared vector components that are charged as one operation.
const COMPONENTS_OF_AN_OPERATION: u64 = 1_024;
/// The minimum number of vector components that a processor compares per microsecond.
const COMPONENTS_OF_A_MICROSECOND: u64 = 2_000;

/// The approximate processor time of a call of the store, including passing it to another thread and back.
const WAY: Duration = Duration::from_micros(100);
/// The approximate number of bytes that the store reads or writes per microsecond.
const BYTES_OF_A_MICROSECOND: u64 = 200;

/// The approximate time in which the host embeds one byte of text, in nanoseconds.
const NANOSECONDS_OF_A_BYTE: u64 = 40;

/// Returns the running call and the id of its user.
///
/// # Errors
///
/// Returns an error if the host has not verified the user: an id in the body of a request proves nothing.
pub(super) fn user(function: &str) -> RhaiResultOf<(Call, String)> {
    let call = running(function)?;
    match &call.turn.facts().verified_user {
        Some(user) => {
            let user = user.clone();
            Ok((call, user))
        }
        None => Err(fail(
            function,
            "cannot find the records of the user: the request has no verified user; give its key a user in \
             [server] keys, or set trust_user_headers for an Open WebUI",
        )),
    }
}

/// Returns the vector space of a user for a plugin.
pub(super) fn space_of_user(plugin: &str, user: &str) -> VectorOwner {
    VectorOwner { plugin: plugin.to_owned(), scope: format!("user/{user}") }
}

/// Creates the error of an undeclared capability.
pub(super) fn undeclared(function: &str, capability: &str) -> Box<rhai::EvalAltResult> {
    fail(
        function,
        format!(
            "missing capability `{capability}`; add a line to the opening comment of the file: requirements: {capability}"
        ),
    )
}

/// Creates the error of users' records that are not declared or not granted.
pub(super) fn ungranted(function: &str, call: &Call, capability: Capability) -> Box<rhai::EvalAltResult> {
    let (plugin, is_granted) = (&call.caller.plugin, call.resources.records.contains(&capability));
    let capability = capability.name();
    if is_granted {
        return fail(
            function,
            format!(
                "cannot find the {capability} of users: no host runs the script; run it in a host, or as a test"
            ),
        );
    }
    fail(
        function,
        format!(
            "the script is not allowed to use `{capability}`; add it to `requirements` in the opening comment of the \
             file, and grant it with: valvehouse grant {plugin} {capability}"
        ),
    )
}

/// Waits for work on the store.
pub(super) fn wait<T>(
    function: &str,
    call: &Call,
    work: impl Future<Output = Result<T, StoreError>>,
) -> RhaiResultOf<T> {
    let done = budget::wait(&call.turn, work)?;
    charge(WAY)?;
    done.map_err(|error| match error.kind {
        StoreErrorKind::Refused => fail(function, error.cause),
        // Details of the store are not shown to scripts.
        _ => fail(function, Error::from(error)),
    })
}

/// Charges work on another thread, by its estimated time.
fn charge(work: Duration) -> RhaiResultOf<()> {
    budget::spend(work).and_then(|()| budget::charge_work(work)).map_err(budget::ended)
}

/// Charges the bytes that the store reads or writes as work of the script.
pub(super) fn charge_bytes(bytes: u64) -> RhaiResultOf<()> {
    charge(Duration::from_micros(bytes / BYTES_OF_A_MICROSECOND))
}

/// Charges the time in which the host computed vectors itself as work of the script.
pub(super) fn charge_embedding(embedded: &Embeddings, bytes: usize) -> RhaiResultOf<()> {
    if embedded.model != BUILTIN_EMBEDDING {
        return Ok(());
    }
    charge(Duration::from_nanos(bytes as u64 * NANOSECONDS_OF_A_BYTE))
}

/// Charges the comparison of vectors as operations and running time of the script.
pub(super) fn charge_search(components: u64) -> RhaiResultOf<()> {
    budget::charge(components / COMPONENTS_OF_AN_OPERATION).map_err(budget::ended)?;
    budget::spend(Duration::from_micros(components / COMPONENTS_OF_A_MICROSECOND)).map_err(budget::ended)
}

/// Reads a script's vector: a list of numbers.
pub(super) fn vector(function: &str, name: &str, value: &Dynamic) -> RhaiResultOf<Vec<f32>> {
    match json_of(value)? {
        Json::Array(list) => vector_of(function, name, &Json::Array(list)),
        _ => Err(unfit(function, name, "an array of numbers", value)),
    }
}

pub(super) fn vector_of(function: &str, name: &str, value: &Json) -> RhaiResultOf<Vec<f32>> {
    let Json::Array(list) = value else {
        return Err(fail(function, format!("`{name}` must be an array of numbers, not {}", value.kind())));
    };
    let items = list.items();
    budget::charge(items.len() as u64 / 64).map_err(budget::ended)?;
    let numbers: Option<Vec<f32>> =
        items.iter().map(|item| item.as_f64().map(|number| number as f32)).collect();
    numbers.ok_or_else(|| fail(function, format!("`{name}` must be an array of numbers")))
}
