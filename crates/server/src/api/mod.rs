//! Typed routes: the types in a handler's signature parse the request, serialize the response and describe
//! both in `/openapi.json`.
//!
//! ```ignore
//! Routes::new("Traces", Callers::Operators)
//!     .route("/api/v1/traces", get("Lists requests.", all))
//!
//! async fn all(State(app): State<Arc<App>>, Query(query): Query<TraceQuery>) -> Answer<Traces>
//! ```
//!
//! The type of a request derives `Deserialize` and `JsonSchema`: a value is checked against the schema, which
//! reports all wrong fields at once, and then deserialized. The type of a response derives `Serialize` and
//! `JsonSchema`.

mod answer;
mod describe;
mod input;
mod routes;
mod schema;

pub(crate) use answer::{Answer, EventStream, JsonOf, List, Reply};
pub(crate) use describe::Description;
pub(crate) use input::{Body, CheckedBody, Path, Query, fits};
pub(crate) use routes::{Callers, Operation, RouteDescription, Routes, delete, get, post, put};
pub(crate) use schema::{AnyObject, shared_schemas};
