//! One editor, served from its greeting to its good-bye.

use super::session::Session;
use lsp_server::Connection;
use lsp_types::{
    CompletionOptions, HoverProviderCapability, InitializeParams, OneOf, SaveOptions, ServerCapabilities,
    SignatureHelpOptions, TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions,
};
use tokio::runtime::Handle;
use valvehouse_terminal::{CommandError, Exit};

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
