//! `/openapi.json`: every route of every endpoint, described. One file an endpoint, compiled in; what all endpoints share
//! stands in `common.json`.
//!
//! An endpoint's file has `paths` as OpenAPI writes them, and beside them what holds for all of them: `tag`,
//! `security`, and `everywhere`, the answers that any of its routes may give. Each path under
//! `with_and_without_v1` stands for two.

mod document;

pub(crate) use document::routes;
