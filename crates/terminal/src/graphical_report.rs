//! Problems of scripts, drawn for terminals.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::ops::Range;
use valvehouse_script::{Diagnostic, Severity};

/// The message, the place, the line with what is meant underlined, and the help, with colors.
pub(crate) fn drawn(problem: &Diagnostic) -> String {
    let level = match problem.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = |message: String| level.primary_title(message).id(problem.code.id());
    let mut group = match problem.line.zip(problem.column) {
        Some((line, column)) => title(problem.message.clone()).element(
            Snippet::source(problem.excerpt.as_str())
                .path(problem.path.display().to_string())
                .line_start(line)
                .annotation(AnnotationKind::Primary.span(underlined(problem, column))),
        ),
        None => Group::with_title(title(format!("{}: {}", problem.place(), problem.message))),
    };
    if let Some(help) = &problem.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    Renderer::styled().decor_style(DecorStyle::Unicode).render(&[group])
}

/// The range that is meant, in bytes of the excerpt. Columns count letters from 1.
fn underlined(problem: &Diagnostic, column: usize) -> Range<usize> {
    let bytes =
        |letters: usize, from: &str| -> usize { from.chars().take(letters).map(char::len_utf8).sum() };
    let start = bytes(column - 1, &problem.excerpt);
    start..start + bytes(problem.width(), &problem.excerpt[start..])
}
