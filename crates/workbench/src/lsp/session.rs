//! The session with one editor: its documents, requests and notifications.
//!
//! One editor, served from its greeting to its good-bye.

use super::diagnostics::{Project, folder_of, imported};
use super::document::{Document, byte_at, range_of};
use super::responses;
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    CompletionOptions, CompletionParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, DocumentSymbolParams, GotoDefinitionParams,
    HoverParams, HoverProviderCapability, InitializeParams, Location, OneOf, PublishDiagnosticsParams, Range,
    SaveOptions, ServerCapabilities, SignatureHelpOptions, SignatureHelpParams, TextDocumentPositionParams,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
    Url,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use valvehouse_script::editor::{Place, Sketch};
use valvehouse_terminal::{CommandError, Exit};

/// A text is looked through when its author has paused for as long.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Session {
    connection: Connection,
    /// Folders that the editor has open.
    folders: Vec<PathBuf>,
    /// Set if the editor supports tab stops in inserted text.
    has_places: bool,
    overrides: Vec<(String, String)>,
    runtime: Handle,
    documents: HashMap<Url, Document>,
    projects: HashMap<PathBuf, Project>,
}

impl Session {
    pub(super) fn new(
        connection: Connection,
        params: &InitializeParams,
        overrides: Vec<(String, String)>,
        runtime: Handle,
    ) -> Self {
        let texts = params.capabilities.text_document.as_ref();
        let completion = texts.and_then(|texts| texts.completion.as_ref());
        let item = completion.and_then(|completion| completion.completion_item.as_ref());
        Self {
            connection,
            folders: folders(params),
            has_places: item.and_then(|item| item.snippet_support).unwrap_or(false),
            overrides,
            runtime,
            documents: HashMap::new(),
            projects: HashMap::new(),
        }
    }

    /// Until the editor says good-bye.
    pub(super) fn run(mut self) {
        loop {
            let message = match self.documents.values().filter_map(|document| document.due).min() {
                Some(due) => {
                    let rest = due.saturating_duration_since(Instant::now());
                    match self.connection.receiver.recv_timeout(rest) {
                        Ok(message) => message,
                        Err(nothing) if nothing.is_timeout() => {
                            self.diagnose_due();
                            continue;
                        }
                        Err(_) => return,
                    }
                }
                None => match self.connection.receiver.recv() {
                    Ok(message) => message,
                    Err(_) => return,
                },
            };
            match message {
                Message::Request(request) => {
                    if !matches!(self.connection.handle_shutdown(&request), Ok(false)) {
                        return;
                    }
                    let answer = self.answer(request);
                    self.send(Message::Response(answer));
                }
                Message::Notification(told) => {
                    // One message that cannot be understood is no reason to leave the editor alone.
                    if catch_unwind(AssertUnwindSafe(|| self.hear(told))).is_err() {
                        tracing::error!("ignored a message of the editor");
                    }
                }
                Message::Response(_) => {}
            }
        }
    }

    fn send(&self, message: Message) {
        // A reader that has stopped is gone; the next message says so.
        let _ = self.connection.sender.send(message);
    }

    /// The answer to a question; never none, or the editor waits for ever.
    fn answer(&self, request: Request) -> Response {
        let (id, method) = (request.id.clone(), request.method.clone());
        match catch_unwind(AssertUnwindSafe(|| self.answered(request))) {
            Ok(Ok(value)) => Response::new_ok(id, value),
            Ok(Err((code, why))) => Response::new_err(id, code as i32, why),
            Err(_) => Response::new_err(
                id,
                ErrorCode::InternalError as i32,
                format!("{method} failed in the language server"),
            ),
        }
    }

    fn answered(&self, request: Request) -> Result<Value, (ErrorCode, String)> {
        match request.method.as_str() {
            "textDocument/completion" => {
                asked(request, |params: CompletionParams| self.complete(&params.text_document_position))
            }
            "textDocument/hover" => asked(request, |params: HoverParams| {
                let (document, at) = self.place(&params.text_document_position_params)?;
                let hover = document.sketch.hover(at, &|import| self.module(&document.path, import))?;
                Some(responses::hover(&document.text, hover))
            }),
            "textDocument/definition" => asked(request, |params: GotoDefinitionParams| {
                self.definition(&params.text_document_position_params)
            }),
            "textDocument/signatureHelp" => asked(request, |params: SignatureHelpParams| {
                let (document, at) = self.place(&params.text_document_position_params)?;
                document.sketch.call(at).map(responses::signatures)
            }),
            "textDocument/documentSymbol" => asked(request, |params: DocumentSymbolParams| {
                let document = self.documents.get(&params.text_document.uri)?;
                let symbols = document.sketch.symbols().into_iter();
                Some(symbols.map(|symbol| responses::symbol(&document.text, symbol)).collect::<Vec<_>>())
            }),
            other => Err((ErrorCode::MethodNotFound, format!("unknown method {other}"))),
        }
    }

    fn place(&self, params: &TextDocumentPositionParams) -> Option<(&Document, usize)> {
        let document = self.documents.get(&params.text_document.uri)?;
        Some((document, byte_at(&document.text, params.position)))
    }

    fn complete(&self, params: &TextDocumentPositionParams) -> Option<Vec<lsp_types::CompletionItem>> {
        let (document, at) = self.place(params)?;
        let suggestions = document.sketch.suggestions(at, &|import| self.module(&document.path, import));
        let items = suggestions.into_iter().enumerate().map(responses::completion);
        Some(if self.has_places { items.collect() } else { items.map(responses::plain).collect() })
    }

    fn definition(&self, params: &TextDocumentPositionParams) -> Option<Location> {
        let (document, at) = self.place(params)?;
        match document.sketch.definition(at)? {
            Place::Here(bytes) => {
                let range = range_of(&document.text, &bytes);
                Some(Location::new(params.text_document.uri.clone(), range))
            }
            Place::In { import, name } => {
                let path = imported(&document.path, &import)?;
                let there = self.text(&path)?;
                let declared = name.and_then(|name| Sketch::of(&there).declared(&name));
                let range = declared.map_or_else(Range::default, |bytes| range_of(&there, &bytes));
                Some(Location::new(Url::from_file_path(path).ok()?, range))
            }
        }
    }

    /// The file of an import, as it is in the editor or else on the disk.
    fn module(&self, path: &Path, import: &str) -> Option<Sketch> {
        self.text(&imported(path, import)?).map(|text| Sketch::of(&text))
    }

    fn text(&self, path: &Path) -> Option<String> {
        let open = self.documents.values().find(|document| document.path == path);
        open.map(|document| document.text.to_string()).or_else(|| std::fs::read_to_string(path).ok())
    }

    fn hear(&mut self, told: Notification) {
        match told.method.as_str() {
            "textDocument/didOpen" => {
                let Some(DidOpenTextDocumentParams { text_document: it }) = read(told) else { return };
                let Ok(path) = it.uri.to_file_path() else { return };
                self.documents.insert(it.uri, Document::new(path, &it.text, Some(it.version)));
            }
            "textDocument/didChange" => {
                let Some(DidChangeTextDocumentParams { text_document: it, content_changes }) = read(told)
                else {
                    return;
                };
                let Some(document) = self.documents.get_mut(&it.uri) else { return };
                // With the whole text each time, the last is what there is.
                let Some(change) = content_changes.into_iter().next_back() else { return };
                let path = std::mem::take(&mut document.path);
                *document = Document::new(path, &change.text, Some(it.version));
                document.due = Some(Instant::now() + PAUSE);
            }
            // Other files may depend on the saved one, a module or the settings.
            "textDocument/didSave" => {
                let known = read::<DidSaveTextDocumentParams>(told);
                if known.is_some() {
                    self.look_again();
                }
            }
            "workspace/didChangeWatchedFiles" | "workspace/didChangeConfiguration" => self.look_again(),
            "textDocument/didClose" => {
                let Some(DidCloseTextDocumentParams { text_document: it }) = read(told) else { return };
                if self.documents.remove(&it.uri).is_some() {
                    self.publish(it.uri, Vec::new(), None);
                }
            }
            _ => {}
        }
    }

    fn look_again(&mut self) {
        self.projects.clear();
        self.documents.values_mut().for_each(|document| document.due = Some(Instant::now()));
    }

    fn diagnose_due(&mut self) {
        let now = Instant::now();
        let is_due = |document: &Document| document.due.is_some_and(|due| due <= now);
        let due: Vec<Url> = self
            .documents
            .iter()
            .filter(|(_, document)| is_due(document))
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in due {
            if catch_unwind(AssertUnwindSafe(|| self.diagnose(&uri))).is_err() {
                tracing::error!("cannot check {uri}");
            }
        }
    }

    fn diagnose(&mut self, uri: &Url) {
        let Some(document) = self.documents.get_mut(uri) else { return };
        document.due = None;
        let folder = folder_of(&document.path, &self.folders);
        let project = self
            .projects
            .entry(folder)
            .or_insert_with_key(|folder| Project::open(folder, &self.overrides, &self.runtime));
        let (found, version) = (project.diagnose(document), document.version);
        self.publish(uri.clone(), found, version);
    }

    fn publish(&self, uri: Url, diagnostics: Vec<lsp_types::Diagnostic>, version: Option<i32>) {
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        self.send(Message::Notification(Notification::new("textDocument/publishDiagnostics".into(), params)));
    }
}

/// The answer to one kind of question; null where there is nothing to say.
fn asked<P: DeserializeOwned, R: Serialize>(
    request: Request,
    answer: impl FnOnce(P) -> Option<R>,
) -> Result<Value, (ErrorCode, String)> {
    let params = serde_json::from_value(request.params)
        .map_err(|error| (ErrorCode::InvalidParams, format!("{}: {error}", request.method)))?;
    serde_json::to_value(answer(params)).map_err(|error| (ErrorCode::InternalError, error.to_string()))
}

fn read<P: DeserializeOwned>(told: Notification) -> Option<P> {
    serde_json::from_value(told.params).map_err(|error| tracing::warn!("{}: {error}", told.method)).ok()
}

/// The folders that the editor has open.
#[allow(deprecated)] // editors of some years ago say it in this way only
fn folders(params: &InitializeParams) -> Vec<PathBuf> {
    let open = params.workspace_folders.iter().flatten().map(|folder| &folder.uri);
    open.chain(&params.root_uri).filter_map(|uri| uri.to_file_path().ok()).collect()
}

/// Serves one editor until it says good-bye or closes the pipe.
///
/// # Errors
///
/// Returns the reason for which it could not be done.
pub async fn run(overrides: Vec<(String, String)>) -> Result<Exit, CommandError> {
    let runtime = Handle::current();
    let served = tokio::task::spawn_blocking(move || serve(overrides, runtime)).await;
    let served = served.unwrap_or_else(|error| Err(error.to_string()));
    served.map_err(|why| CommandError::new(Exit::Internal, format!("the language server ended: {why}")))?;
    Ok(Exit::Done)
}

fn serve(overrides: Vec<(String, String)>, runtime: Handle) -> Result<(), String> {
    let (connection, threads) = Connection::stdio();
    // An editor that leaves before it has said anything wants nothing.
    let Ok((id, params)) = connection.initialize_start() else { return Ok(()) };
    let params: InitializeParams = serde_json::from_value(params).map_err(|error| error.to_string())?;
    let about = serde_json::json!({
        "capabilities": capabilities(),
        "serverInfo": { "name": "valvehouse", "version": env!("CARGO_PKG_VERSION") },
    });
    if connection.initialize_finish(id, about).is_err() {
        return Ok(());
    }
    Session::new(connection, &params, overrides, runtime).run();
    threads.join().map_err(|error| error.to_string())
}

fn capabilities() -> ServerCapabilities {
    let signs = |signs: &[&str]| Some(signs.iter().map(|sign| (*sign).to_owned()).collect());
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            // A script is short: the whole text at each change spares mistakes about its places.
            change: Some(TextDocumentSyncKind::FULL),
            save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions { include_text: Some(false) })),
            ..TextDocumentSyncOptions::default()
        })),
        completion_provider: Some(CompletionOptions {
            trigger_characters: signs(&[".", ":", "(", ","]),
            ..CompletionOptions::default()
        }),
        signature_help_provider: Some(SignatureHelpOptions {
            trigger_characters: signs(&["(", ","]),
            ..SignatureHelpOptions::default()
        }),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        definition_provider: Some(OneOf::Left(true)),
        document_symbol_provider: Some(OneOf::Left(true)),
        ..ServerCapabilities::default()
    }
}
