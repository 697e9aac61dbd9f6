//! The session with an editor, from its initialization to its end: its documents, requests and notifications.

use super::capabilities::capabilities;
use super::diagnostics::{Project, folder_of, imported};
use super::document::{Document, byte_at, range_of};
use super::lenses::{self, RUN_TESTS};
use super::names::{Declaration, Texts};
use super::{actions, responses};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    CodeActionParams, CodeLensParams, CompletionParams, DidChangeTextDocumentParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, DidSaveTextDocumentParams,
    DocumentFormattingParams, DocumentSymbolParams, ExecuteCommandParams, GotoDefinitionParams, HoverParams,
    InitializeParams, InlayHintParams, Location, MessageType, PublishDiagnosticsParams, ReferenceParams,
    RenameParams, ShowMessageParams, SignatureHelpParams, TextDocumentPositionParams, TextEdit, Url,
    WorkspaceEdit,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use valvehouse_authoring::editor::Sketch;
use valvehouse_terminal::{CommandError, Exit, files};

/// The pause in typing after which a text is checked.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Session {
    connection: Connection,
    /// The folders that the editor has open.
    folders: Vec<PathBuf>,
    /// `true` if the editor supports tab stops in inserted text.
    has_places: bool,
    overrides: Vec<(String, String)>,
    runtime: Handle,
    documents: HashMap<Url, Document>,
    projects: HashMap<PathBuf, Project>,
    /// The requested test runs, which start after the response: the file, and optionally the name of a test.
    requested_tests: RefCell<Vec<(PathBuf, Option<String>)>>,
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
            requested_tests: RefCell::default(),
        }
    }

    /// Handles messages until the editor ends the session.
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
                    self.check_before(&request);
                    let answer = self.answer(request);
                    self.send(Message::Response(answer));
                    self.run_requested_tests();
                }
                Message::Notification(notification) => {
                    // A message that causes a panic must not end the session.
                    if catch_unwind(AssertUnwindSafe(|| self.on_notification(notification))).is_err() {
                        tracing::error!("ignored a message of the editor");
                    }
                }
                Message::Response(_) => {}
            }
        }
    }

    fn send(&self, message: Message) {
        // If the receiver is gone, the next receive fails.
        let _ = self.connection.sender.send(message);
    }

    /// Returns the response to a request. There is always one, because the editor waits for it.
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
            "textDocument/completion" => nullable_answer(request, |params: CompletionParams| {
                self.complete(&params.text_document_position)
            }),
            "textDocument/hover" => nullable_answer(request, |params: HoverParams| {
                let (document, at) = self.place(&params.text_document_position_params)?;
                let hover = document.sketch.hover(at, &|import| self.module(&document.path, import))?;
                Some(responses::hover(&document.text, hover))
            }),
            "textDocument/definition" => nullable_answer(request, |params: GotoDefinitionParams| {
                self.definition(&params.text_document_position_params)
            }),
            "textDocument/signatureHelp" => nullable_answer(request, |params: SignatureHelpParams| {
                let (document, at) = self.place(&params.text_document_position_params)?;
                document.sketch.call(at).map(responses::signatures)
            }),
            "textDocument/documentSymbol" => nullable_answer(request, |params: DocumentSymbolParams| {
                let document = self.documents.get(&params.text_document.uri)?;
                let symbols = document.sketch.symbols().into_iter();
                Some(symbols.map(|symbol| responses::symbol(&document.text, symbol)).collect::<Vec<_>>())
            }),
            "textDocument/codeAction" => nullable_answer(request, |params: CodeActionParams| {
                let document = self.documents.get(&params.text_document.uri)?;
                Some(actions::fixes(document, &params))
            }),
            "textDocument/formatting" => answered(request, |params: DocumentFormattingParams| {
                let document = self.documents.get(&params.text_document.uri);
                document.map(|document| actions::formatting(&document.text)).transpose()
            }),
            "textDocument/references" => {
                nullable_answer(request, |params: ReferenceParams| self.references(&params))
            }
            "textDocument/prepareRename" => {
                answered(request, |params: TextDocumentPositionParams| self.prepare_rename(&params))
            }
            "textDocument/rename" => answered(request, |params: RenameParams| self.rename(&params)),
            "textDocument/inlayHint" => nullable_answer(request, |params: InlayHintParams| {
                let document = self.documents.get(&params.text_document.uri)?;
                Some(lenses::hints(document, params.range))
            }),
            "textDocument/codeLens" => nullable_answer(request, |params: CodeLensParams| {
                let document = self.documents.get(&params.text_document.uri)?;
                Some(lenses::lenses(document, &params.text_document.uri))
            }),
            "workspace/executeCommand" => answered(request, |params: ExecuteCommandParams| {
                self.execute(&params).map(|()| Some(Value::Null))
            }),
            other => Err((ErrorCode::MethodNotFound, format!("unknown method {other}"))),
        }
    }

    /// Checks changed texts before a request for fixes or values, which must match the current text.
    fn check_before(&mut self, request: &Request) {
        let needs = ["textDocument/codeAction", "textDocument/inlayHint"].contains(&request.method.as_str());
        if needs && self.documents.values().any(|document| document.due.is_some()) {
            self.documents.values_mut().filter(|document| document.due.is_some()).for_each(|document| {
                document.due = Some(Instant::now());
            });
            self.diagnose_due();
        }
    }

    /// Returns the declaration of a name, and the folder of its project.
    fn declaration(&self, params: &TextDocumentPositionParams) -> Option<(Declaration, PathBuf)> {
        let (document, at) = self.place(params)?;
        let root = folder_of(&document.path, &self.folders);
        let declaration = Texts { root: root.clone(), read: &|path| self.text(path) }.declaration(
            &document.path,
            &document.sketch,
            at,
        )?;
        Some((declaration, root))
    }

    fn references(&self, params: &ReferenceParams) -> Option<Vec<Location>> {
        let (declaration, root) = self.declaration(&params.text_document_position)?;
        let uses = Texts { root, read: &|path| self.text(path) }.uses(&declaration);
        let mut found = Vec::new();
        for (path, (text, places)) in &uses {
            let uri = self.uri_of(path)?;
            let is_wanted = |at: &&Range<usize>| {
                params.context.include_declaration || *path != declaration.path || **at != declaration.at
            };
            found.extend(
                places.iter().filter(is_wanted).map(|at| Location::new(uri.clone(), range_of(text, at))),
            );
        }
        Some(found)
    }

    fn prepare_rename(
        &self,
        params: &TextDocumentPositionParams,
    ) -> Result<Option<lsp_types::Range>, String> {
        let Some((document, at)) = self.place(params) else { return Ok(None) };
        let Some((declaration, _)) = self.declaration(params) else {
            return Err(document
                .sketch
                .fixed_name(at)
                .unwrap_or_else(|| "this name is not declared in the project".to_owned()));
        };
        self.check_name(&declaration)?;
        Ok(document.sketch.name_at(at).map(|name| range_of(&document.text, &name.at)))
    }

    /// Checks that a declared name may be chosen by the script.
    fn check_name(&self, declaration: &Declaration) -> Result<(), String> {
        let Some(text) = self.text(&declaration.path) else {
            return Err(format!("cannot rename it: cannot read {}", declaration.path.display()));
        };
        match Sketch::of(&text).fixed_name(declaration.at.start) {
            Some(why) => Err(format!("cannot rename it: {why}")),
            None => Ok(()),
        }
    }

    fn rename(&self, params: &RenameParams) -> Result<Option<WorkspaceEdit>, String> {
        let Some((declaration, root)) = self.declaration(&params.text_document_position) else {
            return Err("cannot rename it: it is not declared in a script".to_owned());
        };
        self.check_name(&declaration)?;
        let uses = Texts { root, read: &|path| self.text(path) }.renamed(&declaration, &params.new_name)?;
        let mut changes = HashMap::new();
        for (path, (text, places)) in &uses {
            let Some(uri) = self.uri_of(path) else { continue };
            let edit = |at| TextEdit::new(range_of(text, at), params.new_name.clone());
            changes.insert(uri, places.iter().map(edit).collect());
        }
        Ok(Some(WorkspaceEdit::new(changes)))
    }

    /// Returns the URI of a file, in the editor's form if it is open.
    fn uri_of(&self, path: &Path) -> Option<Url> {
        let open = self.documents.iter().find(|(_, document)| document.path == path);
        open.map(|(uri, _)| uri.clone()).or_else(|| Url::from_file_path(path).ok())
    }

    fn execute(&self, params: &ExecuteCommandParams) -> Result<(), String> {
        if params.command != RUN_TESTS {
            return Err(format!("unknown command `{}`; the command is {RUN_TESTS}", params.command));
        }
        let text = |nth: usize| params.arguments.get(nth).and_then(Value::as_str);
        let path = text(0).and_then(|uri| Url::parse(uri).ok()).and_then(|uri| uri.to_file_path().ok());
        let path = path.ok_or_else(|| format!("invalid arguments of {RUN_TESTS}: expected a file URI"))?;
        self.requested_tests.borrow_mut().push((path, text(1).map(str::to_owned)));
        Ok(())
    }

    fn run_requested_tests(&mut self) {
        for (path, name) in self.requested_tests.take() {
            let (folder, runtime) = (folder_of(&path, &self.folders), self.runtime.clone());
            let ran = match self.project(folder).config() {
                Ok(config) => runtime.block_on(lenses::run(&path, name.as_deref(), config)),
                Err(why) => Err(why.to_owned()),
            };
            let (kind, message) = match &ran {
                Ok(ran) => (ran.kind, ran.message.clone()),
                Err(why) => (MessageType::ERROR, format!("cannot run the tests: {why}")),
            };
            let params = ShowMessageParams { typ: kind, message };
            self.send(Message::Notification(Notification::new("window/showMessage".into(), params)));
            let Ok(ran) = ran else { continue };
            let open = self.documents.iter_mut().find(|(_, document)| document.path == ran.path);
            if let Some((uri, document)) = open {
                document.failed = ran.diagnostics(document);
                let uri = uri.clone();
                self.publish_all(&uri);
            }
        }
    }

    fn project(&mut self, folder: PathBuf) -> &Project {
        let (overrides, runtime) = (&self.overrides, &self.runtime);
        self.projects.entry(folder).or_insert_with_key(|folder| Project::open(folder, overrides, runtime))
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
        let texts = Texts { root: PathBuf::new(), read: &|path| self.text(path) };
        let found = texts.declaration(&document.path, &document.sketch, at)?;
        let range = range_of(&self.text(&found.path)?, &found.at);
        Some(Location::new(self.uri_of(&found.path)?, range))
    }

    /// Returns the file of an import: the text open in the editor, else the one on disk.
    fn module(&self, path: &Path, import: &str) -> Option<Sketch> {
        self.text(&imported(path, import)?).map(|text| Sketch::of(&text))
    }

    fn text(&self, path: &Path) -> Option<String> {
        let open = self.documents.values().find(|document| document.path == path);
        open.map(|document| document.text.to_string())
            .or_else(|| files::read_text(path, files::MAX_INPUT).ok())
    }

    fn on_notification(&mut self, notification: Notification) {
        match notification.method.as_str() {
            "textDocument/didOpen" => {
                let Some(DidOpenTextDocumentParams { text_document: it }) = read(notification) else {
                    return;
                };
                let Ok(path) = it.uri.to_file_path() else { return };
                self.documents.insert(it.uri, Document::new(path, &it.text, Some(it.version)));
            }
            "textDocument/didChange" => {
                let Some(DidChangeTextDocumentParams { text_document: it, content_changes }) =
                    read(notification)
                else {
                    return;
                };
                let Some(document) = self.documents.get_mut(&it.uri) else { return };
                // Each change contains the full text, so the last one is the current text.
                let Some(change) = content_changes.into_iter().next_back() else { return };
                let (path, valves) = (std::mem::take(&mut document.path), document.valves.take());
                *document = Document::new(path, &change.text, Some(it.version));
                document.valves = valves;
                document.due = Some(Instant::now() + PAUSE);
            }
            // Other files may depend on the saved file, such as a module or the settings.
            "textDocument/didSave" => {
                let known = read::<DidSaveTextDocumentParams>(notification);
                if known.is_some() {
                    self.look_again();
                }
            }
            "workspace/didChangeWatchedFiles" | "workspace/didChangeConfiguration" => self.look_again(),
            "textDocument/didClose" => {
                let Some(DidCloseTextDocumentParams { text_document: it }) = read(notification) else {
                    return;
                };
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
        let (overrides, runtime) = (&self.overrides, &self.runtime);
        let project = self
            .projects
            .entry(folder)
            .or_insert_with_key(|folder| Project::open(folder, overrides, runtime));
        let (found, valves) = project.diagnose(document);
        document.found = found;
        document.valves = valves.or(document.valves.take());
        self.publish_all(uri);
    }

    /// Publishes the problems of a text and the failures of its tests.
    fn publish_all(&self, uri: &Url) {
        let Some(document) = self.documents.get(uri) else { return };
        let found = document.found.iter().map(|found| found.diagnostic.clone());
        let all = found.chain(document.failed.iter().cloned()).collect();
        self.publish(uri.clone(), all, document.version);
    }

    fn publish(&self, uri: Url, diagnostics: Vec<lsp_types::Diagnostic>, version: Option<i32>) {
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        self.send(Message::Notification(Notification::new("textDocument/publishDiagnostics".into(), params)));
    }
}

/// Handles a request of one type. An error is shown by the editor.
fn answered<P: DeserializeOwned, R: Serialize>(
    request: Request,
    answer: impl FnOnce(P) -> Result<Option<R>, String>,
) -> Result<Value, (ErrorCode, String)> {
    let mut refused = None;
    let outcome = nullable_answer(request, |params| {
        answer(params).unwrap_or_else(|why| {
            refused = Some(why);
            None
        })
    });
    match refused {
        Some(why) => Err((ErrorCode::RequestFailed, why)),
        None => outcome,
    }
}

/// Handles a request of one type; the result is null without an answer.
fn nullable_answer<P: DeserializeOwned, R: Serialize>(
    request: Request,
    answer: impl FnOnce(P) -> Option<R>,
) -> Result<Value, (ErrorCode, String)> {
    let params = serde_json::from_value(request.params)
        .map_err(|error| (ErrorCode::InvalidParams, format!("{}: {error}", request.method)))?;
    serde_json::to_value(answer(params)).map_err(|error| (ErrorCode::InternalError, error.to_string()))
}

fn read<P: DeserializeOwned>(notification: Notification) -> Option<P> {
    serde_json::from_value(notification.params)
        .map_err(|error| tracing::warn!("{}: {error}", notification.method))
        .ok()
}

/// Returns the folders that the editor has open.
#[allow(deprecated)] // editors of some years ago say it in this way only
fn folders(params: &InitializeParams) -> Vec<PathBuf> {
    let open = params.workspace_folders.iter().flatten().map(|folder| &folder.uri);
    open.chain(&params.root_uri).filter_map(|uri| uri.to_file_path().ok()).collect()
}

/// Serves an editor until it ends the session or closes the pipe.
///
/// # Errors
///
/// Returns the reason why the server ended.
pub async fn run(overrides: Vec<(String, String)>) -> Result<Exit, CommandError> {
    let runtime = Handle::current();
    let served = tokio::task::spawn_blocking(move || serve(overrides, runtime)).await;
    let served = served.unwrap_or_else(|error| Err(error.to_string()));
    served.map_err(|why| CommandError::new(Exit::Internal, format!("the language server ended: {why}")))?;
    Ok(Exit::Done)
}

fn serve(overrides: Vec<(String, String)>, runtime: Handle) -> Result<(), String> {
    let (connection, threads) = Connection::stdio();
    // The editor closed the connection before initialization.
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
