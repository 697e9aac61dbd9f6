//! `/api/v1/agents`: starts, lists, follows and resumes runs of agents; lists, forks, exports, imports and
//! deletes conversations. The routes are for operators; users may decide on their own runs.

mod conversations;
mod events;
mod launch;
mod routes;
mod runs;

pub(crate) use routes::routes;
