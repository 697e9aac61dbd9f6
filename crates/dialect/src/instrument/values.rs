//! Methods of texts that Rhai only has as changes in place: `let clean = name.trim()`. Where the value of the call is
//! used, it is the new text, as in Python, and the text itself stays as it is.

use rhai::{ASTNode, Engine, Expr, FnCallExpr, FnCallHashes};
use std::sync::OnceLock;

/// The methods, and the functions that return the new text instead.
const METHODS: [(&str, usize, &str); 3] =
    [("trim", 0, "strip"), ("replace", 2, "replaced"), ("replace", 3, "replaced")];

/// Returns `true` for a call that is another function where its value is used.
pub fn returns_text(call: &FnCallExpr) -> bool {
    place_of(call).is_some()
}

/// Returns the position of the method that a call may be.
pub(super) fn place_of(call: &FnCallExpr) -> Option<usize> {
    METHODS.iter().position(|(name, args, _)| call.name == *name && call.args.len() == *args)
}

/// Makes the methods of a chain return their value, without the last one unless `is_value`. Returns `true` if one was
/// changed. `own` are the names of the script's functions.
pub(super) fn return_texts(chain: &mut Expr, is_value: bool, own: &dyn Fn(&str) -> bool) -> bool {
    let (Expr::Dot(pair, ..) | Expr::Index(pair, ..)) = chain else { return false };
    let rest = &mut pair.rhs;
    if let Expr::Dot(link, ..) | Expr::Index(link, ..) = rest {
        let is_first_changed = returns(&mut link.lhs, own);
        return return_texts(rest, is_value, own) || is_first_changed;
    }
    is_value && returns(rest, own)
}

/// Makes a call of one of the methods return its value. Functions are found by their hash.
fn returns(link: &mut Expr, own: &dyn Fn(&str) -> bool) -> bool {
    let Expr::MethodCall(call, _) = link else { return false };
    let hashes = place_of(call).filter(|_| !own(&call.name)).and_then(|place| hashes().get(place));
    call.hashes = *hashes.unwrap_or(&call.hashes);
    hashes.is_some()
}

/// The hashes of the functions that return the new text: they depend on the name and the number of arguments only.
fn hashes() -> &'static [FnCallHashes] {
    static HASHES: OnceLock<Vec<FnCallHashes>> = OnceLock::new();
    HASHES.get_or_init(|| {
        let engine = Engine::new_raw();
        let hash = |(_, args, function): (&str, usize, &str)| {
            let args = vec!["0"; args].join(",");
            let ast = engine.compile_expression(format!("x.{function}({args})")).ok()?;
            let mut found = None;
            ast.walk(&mut |path: &[ASTNode<'_>]| {
                if let Some(ASTNode::Expr(Expr::MethodCall(call, _))) = path.last() {
                    found = Some(call.hashes);
                }
                true
            });
            found
        };
        METHODS.into_iter().filter_map(hash).collect()
    })
}
