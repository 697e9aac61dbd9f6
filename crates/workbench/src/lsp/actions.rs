//! Quick fixes of problems, and formatting of a text.

use super::document::{Document, range_of};
use lsp_types::{
    CodeAction, CodeActionKind, CodeActionOrCommand, CodeActionParams, Range, TextEdit, Url, WorkspaceEdit,
};
use std::collections::HashMap;
use valvehouse_authoring::format::format;

/// Returns the quick fixes of the problems within a range.
pub(super) fn fixes(document: &Document, params: &CodeActionParams) -> Vec<CodeActionOrCommand> {
    let requested = params.context.only.as_ref();
    let is_requested = requested.is_none_or(|kinds| {
        kinds.iter().any(|kind| [CodeActionKind::EMPTY, CodeActionKind::QUICKFIX].contains(kind))
    });
    let found =
        document.found.iter().filter(|found| is_requested && overlap(found.diagnostic.range, params.range));
    found
        .filter_map(|found| {
            let fix = found.fix.as_ref()?;
            let edits = fix
                .edits
                .iter()
                .map(|edit| TextEdit::new(range_of(&document.text, &edit.at), edit.text.clone()));
            Some(CodeActionOrCommand::CodeAction(CodeAction {
                title: fix.title.clone(),
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![found.diagnostic.clone()]),
                edit: Some(edit_of(&params.text_document.uri, edits.collect())),
                is_preferred: Some(true),
                ..CodeAction::default()
            }))
        })
        .collect()
}

fn overlap(one: Range, other: Range) -> bool {
    one.start <= other.end && other.start <= one.end
}

pub(super) fn edit_of(uri: &Url, edits: Vec<TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit::new(HashMap::from([(uri.clone(), edits)]))
}

/// Returns the edit that formats a text; it covers only the lines from the first to the last change.
pub(super) fn formatting(text: &str) -> Result<Vec<TextEdit>, String> {
    let formatted =
        format(text).map_err(|error| format!("cannot format the file: {error}; close it first"))?;
    if formatted == text {
        return Ok(Vec::new());
    }
    let lines = |text: &'_ str| text.split_inclusive('\n').map(str::len).collect::<Vec<_>>();
    let same = |(old, new): &(&str, &str)| old == new;
    let start: usize = text
        .split_inclusive('\n')
        .zip(formatted.split_inclusive('\n'))
        .take_while(same)
        .map(|(line, _)| line.len())
        .sum();
    let (old, new) = (&text[start..], &formatted[start..]);
    let behind =
        old.split_inclusive('\n').rev().zip(new.split_inclusive('\n').rev()).take_while(same).count();
    let end: usize = lines(old).iter().rev().take(behind).sum();
    let range = range_of(text, &(start..text.len() - end));
    Ok(vec![TextEdit::new(range, new[..new.len() - end].to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsp::document::byte_at;

    #[test]
    fn formatting_touches_only_the_lines_that_change() {
        let text = "fn f() {\n    let a = 1;\n  let b=2;\n    a + b\n}\n";
        let edits = formatting(text).unwrap();
        assert_eq!(edits.len(), 1);
        assert_eq!(edits[0].new_text, "    let b = 2;\n");
        assert_eq!((edits[0].range.start.line, edits[0].range.end.line), (2, 3));
        assert_eq!(formatting("fn f() {}\n").unwrap(), Vec::new());
        assert!(formatting("fn f() {").unwrap_err().contains("unclosed"));
        for text in ["fn  f(){}\n\n\n", "a;\n\n\n\nb ;", " x", "\n\nx\n"] {
            let [edit] = &formatting(text).unwrap()[..] else { panic!("{text}") };
            let (start, end) = (byte_at(text, edit.range.start), byte_at(text, edit.range.end));
            let mut applied = text.to_owned();
            applied.replace_range(start..end, &edit.new_text);
            assert_eq!(applied, format(text).unwrap(), "{text:?}");
        }
    }
}
