//! Scripts that operators add by URL, upload and delete, as on Open WebUI's page of pipelines.

use super::names::known_filter;
use crate::api::{Body, Reply};
use crate::auth::Operator;
use crate::reply::Detail;
use axum::Extension;
use axum::extract::{Multipart, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use valvehouse_config::Grant;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::admin::ExpectedVersion;
use valvehouse_host::app::App;
use valvehouse_net::Web;
use valvehouse_net::web::Ask;
use valvehouse_script::{Kind, MAX_SOURCE};

/// The timeout of a download.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The URL of a script, `https://…/NAME.rhai`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PipelineUrl {
    #[schemars(extend("format" = "uri"))]
    url: String,
}

/// The filter to delete.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PipelineId {
    id: String,
}

/// A completed change.
#[derive(Serialize, JsonSchema)]
pub(super) struct PipelineChange {
    status: bool,
    detail: String,
}

type PipelineResult = Result<Reply<PipelineChange>, Detail>;

/// Handles `POST /pipelines/add`, whose body names the URL.
pub(super) async fn add(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Operator>,
    Body(PipelineUrl { url }): Body<PipelineUrl>,
) -> PipelineResult {
    answer(added(&app, &by, &url).await)
}

async fn added(app: &App, by: &Operator, url: &str) -> Result<String, Error> {
    let url = raw(url.trim());
    let path = url.split_once(['?', '#']).map_or(&*url, |(path, _)| path);
    let id = id_of(path.rsplit_once('/').map_or(path, |(_, name)| name))?;
    let text = downloaded(&url).await?;
    write(app, by, &id, text).await?;
    Ok(format!("Pipeline added successfully: {id}"))
}

/// Handles `POST /pipelines/upload`, a form with the field `file`.
pub(super) async fn upload(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Operator>,
    form: Result<Multipart, axum::extract::multipart::MultipartRejection>,
) -> PipelineResult {
    let uploaded = match form {
        Ok(form) => uploaded(&app, &by, form).await,
        Err(error) => Err(wrong_form(&error.body_text())),
    };
    answer(uploaded)
}

async fn uploaded(app: &App, by: &Operator, mut form: Multipart) -> Result<String, Error> {
    while let Some(mut part) = form.next_field().await.map_err(|error| wrong_form(&error.body_text()))? {
        if part.name() != Some("file") {
            continue;
        }
        let unnamed = || Error::invalid("the field `file` has no file name: send NAME.rhai", None);
        let id = id_of(part.file_name().ok_or_else(unnamed)?)?;
        let mut text = Vec::new();
        while let Some(more) = part.chunk().await.map_err(|error| wrong_form(&error.body_text()))? {
            text.extend_from_slice(&more);
            if text.len() > MAX_SOURCE {
                let limit = MAX_SOURCE / 1024;
                let message = format!("{id}.rhai exceeds the limit of {limit} KB for a script; split it");
                return Err(Error::Request {
                    message,
                    param: None,
                    code: Some("request_too_large"),
                    kind: RequestErrorKind::TooLarge,
                });
            }
        }
        write(app, by, &id, text).await?;
        return Ok(format!("Pipeline uploaded successfully: {id}"));
    }
    Err(wrong_form("it has no field `file`"))
}

/// Handles `DELETE /pipelines/delete`, whose body names the id.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(by): Extension<Operator>,
    Body(PipelineId { id }): Body<PipelineId>,
) -> PipelineResult {
    answer(deleted(&app, &by, &id).await)
}

async fn deleted(app: &App, by: &Operator, id: &str) -> Result<String, Error> {
    let id = known_filter(&app.host.snapshot(), id)?.id.clone();
    // The page does not ask for confirmation, so a guard is not deleted here.
    app.admin.delete(&id, false, &by.0).await.map_err(|refused| refused.error)?;
    Ok(format!("Pipeline {id} deleted successfully"))
}

async fn write(app: &App, by: &Operator, id: &str, text: Vec<u8>) -> Result<(), Error> {
    let text =
        String::from_utf8(text).map_err(|_| Error::invalid(format!("{id}.rhai is not UTF-8 text"), None))?;
    let written = app.admin.write(Kind::guess(&text), id, &text, ExpectedVersion::Whatever, &by.0).await;
    written.map(drop).map_err(|refused| refused.error)
}

/// Returns the id of a plugin: the name of its file without the extension.
fn id_of(name: &str) -> Result<String, Error> {
    match name.strip_suffix(".rhai") {
        Some(id) if valvehouse_core::text::is_id(id) => Ok(id.to_owned()),
        Some(_) => Err(Error::invalid(
            format!(
                "invalid name of a plugin {name:?}: expected 1 to 64 characters of a-z, 0-9, _ and - before .rhai"
            ),
            None,
        )),
        None => Err(Error::invalid("Only Rhai scripts (.rhai) are allowed.", None)),
    }
}

async fn downloaded(url: &str) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::invalid(format!("cannot download {url}: {why}"), None);
    let web = Web::new(&Grant::Everything, &[]).map_err(|wrong| failed(wrong.to_string()))?;
    let ask = Ask::new("GET", url)
        .and_then(|ask| ask.within(TIMEOUT))
        .map_err(|error| failed(error.to_string()))?;
    let answer = web.ask(ask).await.map_err(|error| failed(error.to_string()))?;
    match answer.status {
        200 => Ok(answer.body.to_vec()),
        status => Err(failed(format!("status {status}"))),
    }
}

/// Returns the URL of a file's content, for the URL of its page on GitHub.
fn raw(url: &str) -> String {
    let page = url.strip_prefix("https://github.com/").and_then(|path| path.split_once("/blob/"));
    match page {
        Some((repository, path)) => format!("https://raw.githubusercontent.com/{repository}/{path}"),
        None => url.to_owned(),
    }
}

fn wrong_form(why: &str) -> Error {
    Error::invalid(format!("cannot read the upload: {why}"), None)
}

fn answer(done: Result<String, Error>) -> PipelineResult {
    Ok(Reply(PipelineChange { status: true, detail: done? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_github_page_url_becomes_its_raw_file() {
        assert_eq!(
            raw("https://github.com/ann/filters/blob/main/a/limit.rhai"),
            "https://raw.githubusercontent.com/ann/filters/main/a/limit.rhai"
        );
        for other in ["https://example.com/blob/limit.rhai", "https://github.com/ann/filters"] {
            assert_eq!(raw(other), other);
        }
    }

    #[test]
    fn only_script_file_names_are_accepted() {
        assert_eq!(id_of("limit.rhai").ok().as_deref(), Some("limit"));
        for wrong in ["limit.py", "../limit.rhai", "a/b.rhai", "Limit.rhai", ".rhai", ""] {
            assert!(id_of(wrong).is_err(), "{wrong}");
        }
    }
}
