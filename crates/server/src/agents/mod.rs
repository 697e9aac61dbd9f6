//! `/api/v1/agents`: runs are begun, looked at, followed and decided on; conversations are looked at,
//! branched off, carried elsewhere and forgotten. For operators; users decide on their own runs.

mod conversations;
mod events;
mod launch;
mod routes;
mod runs;
mod shapes;

pub(crate) use routes::routes;
