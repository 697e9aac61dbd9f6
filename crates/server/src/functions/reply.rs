//! What these routes answer: a value, or `{"detail": text}` and what is wrong with the script.

use crate::problem;
use crate::reply::{body, json_response, status};
use axum::http::StatusCode;
use axum::response::Response;
use valvehouse_host::admin::Refused;
use valvehouse_host::app::App;
use valvehouse_json::Json;

/// The answer, or why there is none.
pub(super) fn answer(app: &App, result: Result<Json, Refused>) -> Response {
    result.map_or_else(|refused| refusal(app, &refused), |value| json_response(StatusCode::OK, &value))
}

fn refusal(app: &App, refused: &Refused) -> Response {
    tracing::debug!("refused: {refused}");
    let told = Json::from([("detail", body(&refused.fault).at_path("error.message"))]);
    if !refused.problems.is_empty() {
        let problems = refused.problems.iter().map(|one| problem::told(app, one, Some(&one.id), "file"));
        // A fresh object takes any key.
        let _ = told.set("problems", problems.collect::<Vec<_>>());
    }
    let status = StatusCode::from_u16(status(&refused.fault)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    json_response(status, &told)
}
