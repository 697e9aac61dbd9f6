//! `/openapi.json`: every route of every door, described. One file a door, compiled in; what all doors share
//! stands in `common.json`.
//!
//! A door's file has `paths` as OpenAPI writes them, and beside them what holds for all of them: `tag`,
//! `security`, and `everywhere`, the answers that any of its routes may give. Each path under
//! `with_and_without_v1` stands for two.

mod document;

pub(crate) use document::routes;
