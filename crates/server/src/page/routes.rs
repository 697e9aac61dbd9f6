//! The routes of the page.

use super::{assets, chain, overview};
use crate::api::{Callers, Routes, get};
use crate::operations;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

/// Returns the routes. The page itself is public, because it contains no data until an operator signs in.
pub(crate) fn routes() -> Routes {
    let data = Routes::new("Page", Callers::Operators)
        .route(
            "/api/v1/overview",
            get("Returns plugins, models, providers and their problems.", overview::show),
        )
        .route(
            "/api/v1/models/{model}/chain",
            get(
                "Returns the filters of a model in running order, and the reasons why the others do not run.",
                chain::show,
            ),
        )
        .route(
            "/api/v1/coverage",
            get(
                "Returns the guards that ran in the requests of the last hour, on all hosts.",
                chain::coverage,
            ),
        )
        .route("/api/v1/tools", get("Lists tools with their arguments, tags and models.", overview::tools))
        .route(
            "/api/v1/questions",
            get(
                "Lists the approvals that wait for an operator at any host of the store.",
                operations::questions,
            ),
        );
    Routes::new("Page", Callers::Everyone)
        .route(
            "/",
            get("Returns the operators' page to browsers, and the status to others.", front)
                .returns::<operations::Status>()
                .media_types(&["text/html"]),
        )
        .route(
            "/page/{name}",
            get("Returns a file of the page.", assets::file)
                .media_types(&["text/html", "text/css", "text/javascript", "image/svg+xml"])
                .not_modified(),
        )
        .merge(data)
}

/// Handles `GET /`: returns the page to browsers, and the status to other clients.
async fn front(headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut answer = match accepts.into_iter().any(|value| value.contains("text/html")) {
        true => assets::page(&headers),
        false => operations::status().await.into_response(),
    };
    answer.headers_mut().insert(header::VARY, header::HeaderValue::from_static("accept"));
    answer
}
