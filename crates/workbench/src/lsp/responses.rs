//! Responses to the editor, in the types of the protocol.

use super::document::range_of;
use lsp_types::{
    CompletionItem, CompletionItemKind, DocumentSymbol, Documentation, HoverContents, InsertTextFormat,
    MarkupContent, MarkupKind, ParameterInformation, ParameterLabel, SignatureHelp, SignatureInformation,
};
use valvehouse_authoring::editor::{Hover, OpenCall, Suggestion, SuggestionKind, Symbol, SymbolKind};

fn markdown(value: String) -> MarkupContent {
    MarkupContent { kind: MarkupKind::Markdown, value }
}

/// Converts a suggestion. `nth` preserves their order, in which the nearest names come first.
pub(super) fn completion((nth, suggestion): (usize, Suggestion)) -> CompletionItem {
    let kind = match suggestion.kind {
        SuggestionKind::Function => CompletionItemKind::FUNCTION,
        SuggestionKind::Method => CompletionItemKind::METHOD,
        SuggestionKind::Property => CompletionItemKind::PROPERTY,
        SuggestionKind::Field => CompletionItemKind::FIELD,
        SuggestionKind::Variable => CompletionItemKind::VARIABLE,
        SuggestionKind::Constant => CompletionItemKind::CONSTANT,
        SuggestionKind::Module => CompletionItemKind::MODULE,
        SuggestionKind::Keyword => CompletionItemKind::KEYWORD,
        SuggestionKind::Frame => CompletionItemKind::SNIPPET,
        SuggestionKind::Value => CompletionItemKind::VALUE,
    };
    let documentation = Some(suggestion.doc).filter(|doc| !doc.is_empty());
    CompletionItem {
        label: suggestion.label,
        kind: Some(kind),
        detail: Some(suggestion.detail).filter(|detail| !detail.is_empty()),
        documentation: documentation.map(|doc| Documentation::MarkupContent(markdown(doc))),
        sort_text: Some(format!("{nth:04}")),
        insert_text: Some(suggestion.insert),
        insert_text_format: Some(InsertTextFormat::SNIPPET),
        ..CompletionItem::default()
    }
}

/// Removes the tab stops of an item, for editors that do not support them.
pub(super) fn plain(mut item: CompletionItem) -> CompletionItem {
    item.insert_text = None;
    item.insert_text_format = Some(InsertTextFormat::PLAIN_TEXT);
    item
}

pub(super) fn hover(text: &str, hover: Hover) -> lsp_types::Hover {
    let code = format!("```rhai\n{}\n```", hover.signature);
    let value = if hover.doc.is_empty() { code } else { format!("{code}\n\n{}", hover.doc) };
    lsp_types::Hover {
        contents: HoverContents::Markup(markdown(value)),
        range: Some(range_of(text, &hover.at)),
    }
}

#[allow(deprecated)] // a field that has to be there
pub(super) fn symbol(text: &str, symbol: Symbol) -> DocumentSymbol {
    let kind = match symbol.kind {
        SymbolKind::Function => lsp_types::SymbolKind::FUNCTION,
        SymbolKind::Hook => lsp_types::SymbolKind::EVENT,
        SymbolKind::Constant => lsp_types::SymbolKind::CONSTANT,
        SymbolKind::Field => lsp_types::SymbolKind::FIELD,
        SymbolKind::Module => lsp_types::SymbolKind::MODULE,
    };
    let below: Vec<DocumentSymbol> = symbol.below.into_iter().map(|one| self::symbol(text, one)).collect();
    DocumentSymbol {
        name: symbol.name,
        detail: Some(symbol.detail).filter(|detail| !detail.is_empty()),
        kind,
        tags: None,
        deprecated: None,
        range: range_of(text, &symbol.whole),
        selection_range: range_of(text, &symbol.at),
        children: (!below.is_empty()).then_some(below),
    }
}

pub(super) fn signatures(call: OpenCall) -> SignatureHelp {
    let argument = u32::try_from(call.argument).unwrap_or(u32::MAX);
    // The first overload with enough parameters is selected.
    let fitting = call.ways.iter().position(|(_, params, _)| params.len() > call.argument);
    let ways = call.ways.into_iter().map(|(label, params, doc)| SignatureInformation {
        label,
        documentation: Some(doc)
            .filter(|doc| !doc.is_empty())
            .map(|doc| Documentation::MarkupContent(markdown(doc))),
        parameters: Some(
            params
                .into_iter()
                .map(|param| ParameterInformation {
                    label: ParameterLabel::Simple(param),
                    documentation: None,
                })
                .collect(),
        ),
        active_parameter: Some(argument),
    });
    SignatureHelp {
        signatures: ways.collect(),
        active_signature: Some(u32::try_from(fitting.unwrap_or(0)).unwrap_or(0)),
        active_parameter: Some(argument),
    }
}
