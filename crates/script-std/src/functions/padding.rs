//! `pad` of strings in linear time: Rhai's own takes longer than any budget for a million characters.

use rhai::{
    EvalAltResult, FnNamespace, FuncRegistration, INT, ImmutableString, Module, NativeCallContext, Position,
};

type Answer = Result<(), Box<EvalAltResult>>;

pub(crate) fn register(module: &mut Module) {
    fn function() -> FuncRegistration {
        FuncRegistration::new("pad").with_namespace(FnNamespace::Global)
    }
    function().set_into_module(
        module,
        |ctx: NativeCallContext<'_>, text: &mut ImmutableString, length: INT, padding: char| {
            pad(&ctx, text, length, padding.encode_utf8(&mut [0; 4]))
        },
    );
    function().set_into_module(
        module,
        |ctx: NativeCallContext<'_>, text: &mut ImmutableString, length: INT, padding: &str| {
            pad(&ctx, text, length, padding)
        },
    );
}

/// Pads a text to a length in characters.
fn pad(ctx: &NativeCallContext<'_>, text: &mut ImmutableString, length: INT, padding: &str) -> Answer {
    let Ok(length) = usize::try_from(length) else { return Ok(()) };
    let most = ctx.engine().max_string_size();
    let (has, each) = (text.chars().count(), padding.chars().count());
    if has >= length || each == 0 {
        return Ok(());
    }
    let missing = length - has;
    let (whole, rest) = (missing / each, missing % each);
    let rest = padding.char_indices().nth(rest).map_or(padding, |(end, _)| &padding[..end]);
    let bytes = whole.saturating_mul(padding.len()).saturating_add(text.len() + rest.len());
    if most > 0 && bytes > most {
        // The same error as Rhai's, which no script can catch.
        return Err(EvalAltResult::ErrorDataTooLarge("Length of string".into(), Position::NONE).into());
    }
    let mut padded = String::with_capacity(bytes);
    padded.push_str(text);
    padded.push_str(&padding.repeat(whole));
    padded.push_str(rest);
    *text = padded.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::engine;

    #[test]
    fn texts_are_padded_to_a_length_in_characters() {
        let engine = engine::new();
        for (code, padded) in [
            (r#"let s = "abc"; s.pad(5, '!'); s"#, "abc!!"),
            (r#"let s = "ä"; s.pad(6, "ßx"); s"#, "äßxßxß"),
            (r#"let s = "abc"; s.pad(2, '!'); s"#, "abc"),
            (r#"let s = "abc"; s.pad(-1, '!'); s"#, "abc"),
            (r#"let s = "abc"; s.pad(9, ""); s"#, "abc"),
        ] {
            assert_eq!(engine.eval::<String>(code).unwrap(), padded, "{code}");
        }
        let error = engine.eval::<String>(r#"let s = ""; s.pad(4_000_000_000, "x"); s"#).unwrap_err();
        assert!(error.to_string().contains("ength of string too large"), "{error}");
    }
}
