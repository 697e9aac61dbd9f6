//! Operators who signed in at a proxy in front of the host, which names them in headers.

use crate::address;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use valvehouse_config::ProxySignIn;
use valvehouse_core::error::{Error, RequestErrorKind};
use valvehouse_host::access::OperatorRole;
use valvehouse_host::app::App;

/// The maximum length of a name in a header, in bytes.
const MAX_NAME: usize = 254;

/// Returns the operator whom a trusted proxy names, as the history records it, and the role; `None` if the request is not
/// from such a proxy, or names nobody.
///
/// # Errors
/// Returns a refusal of headers that name nobody for certain, and of somebody without a role.
pub(crate) fn operator(app: &App, parts: &Parts) -> Option<Result<(String, OperatorRole), Error>> {
    let sign_in = app.access.keys.proxy_sign_in();
    if !sign_in.is_on() || !parts.headers.contains_key(&*sign_in.user_header) {
        return None;
    }
    // The address of the connection: a client can write any `X-Forwarded-For`.
    let peer = address::peer(parts)?;
    if !sign_in.trusts(peer) {
        tracing::debug!(%peer, "ignored `{}`: the sender is not in proxy_sign_in.proxies", sign_in.user_header);
        return None;
    }
    Some(named(&sign_in, &parts.headers))
}

/// Returns the operator that the headers name.
fn named(sign_in: &ProxySignIn, headers: &HeaderMap) -> Result<(String, OperatorRole), Error> {
    let name = value(headers, &sign_in.user_header)?;
    let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_part) {
        return Err(ambiguous(
            &sign_in.user_header,
            "is not one name of 1 to 254 ASCII characters without blanks",
        ));
    }
    let groups = if sign_in.groups.is_empty() { "" } else { value(headers, &sign_in.groups_header)? };
    match sign_in.role(name, groups.split(',').map(str::trim)) {
        // The name of a key has no parentheses.
        Some(role) => Ok((format!("proxy ({name})"), role)),
        None => {
            let message = format!(
                "`{name}` signed in at the proxy and has no role at this host: ask for one in [server.proxy_sign_in]"
            );
            Err(refused(message, "operator_without_role"))
        }
    }
}

/// Returns the only value of a header; empty if it is missing.
fn value<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Error> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| ambiguous(name, "is not ASCII text")),
        (None, _) => Ok(""),
        _ => Err(ambiguous(name, "is sent more than once")),
    }
}

fn ambiguous(header: &str, why: &str) -> Error {
    let message = format!(
        "cannot sign in at the proxy: the header `{header}` {why}; let the proxy replace what clients send in it"
    );
    refused(message, "ambiguous_operator")
}

fn refused(message: String, code: &'static str) -> Error {
    Error::Request { message, param: None, code: Some(code), kind: RequestErrorKind::Forbidden }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use std::path::Path;
    use valvehouse_config::Config;

    const USER: &str = "x-forwarded-email";
    const GROUPS: &str = "x-forwarded-groups";

    fn sign_in() -> ProxySignIn {
        let users = [("ann@example.org", OperatorRole::Tune)];
        let groups = [("ops", OperatorRole::Admin), ("Domain Admins", OperatorRole::Write)];
        ProxySignIn {
            users: users.map(|(name, role)| (name.to_owned(), role)).into(),
            groups: groups.map(|(name, role)| (name.to_owned(), role)).into(),
            ..Config::defaults(Path::new(".")).server.proxy_sign_in
        }
    }

    fn read(sent: &[(&'static str, &[u8])]) -> Result<(String, OperatorRole), String> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        }
        named(&sign_in(), &headers).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_has_its_role_or_the_highest_of_its_groups() {
        for (name, groups, role) in [
            ("ann@example.org", "", Some(OperatorRole::Tune)),
            ("ann@example.org", "ops", Some(OperatorRole::Tune)),
            ("bob@example.org", "sales, Domain Admins", Some(OperatorRole::Write)),
            ("bob@example.org", "Domain Admins,ops", Some(OperatorRole::Admin)),
            ("bob@example.org", "sales,,", None),
            ("Ann@example.org", "", None),
            ("ann@example.org.evil.example", "OPS", None),
        ] {
            let expected = role.map(|role| (format!("proxy ({name})"), role));
            let read = read(&[(USER, name.as_bytes()), (GROUPS, groups.as_bytes())]);
            assert_eq!(read.as_ref().ok(), expected.as_ref(), "{name} {groups}");
            assert!(role.is_some() || read.unwrap_err().contains("has no role"), "{name} {groups}");
        }
    }

    #[test]
    fn headers_that_name_nobody_for_certain_are_refused() {
        let long = [b'a'; MAX_NAME + 1];
        let names: [&[u8]; 8] = [
            b"",
            b"ann@example.org, bob@example.org",
            b"ann@example.org,",
            b"ann@example.org bob",
            b"ann@example.org\tbob",
            "ann@ex\u{e4}mple.org".as_bytes(),
            b"ann@example.org\xff",
            &long,
        ];
        for name in names {
            let why = read(&[(USER, name)]).unwrap_err();
            assert!(why.starts_with("cannot sign in at the proxy"), "{name:?}: {why}");
        }
        let ann = (USER, &b"ann@example.org"[..]);
        let twice = read(&[ann, ann]).unwrap_err();
        assert!(twice.contains("`x-forwarded-email` is sent more than once"), "{twice}");
        for groups in [&[(GROUPS, &b"ops"[..]), (GROUPS, b"sales")][..], &[(GROUPS, "op\u{17f}".as_bytes())]]
        {
            let why = read(&[&[(USER, &b"bob"[..])], groups].concat()).unwrap_err();
            assert!(why.contains("`x-forwarded-groups`"), "{why}");
        }
    }
}
