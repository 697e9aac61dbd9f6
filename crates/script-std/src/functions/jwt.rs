//! `jwt::…`: signs and verifies JSON web tokens.

use super::argument::{AnyMap, RhaiResultOf, TextOrBytes, fail, float, unfit, with_bytes};
use super::host_calls;
use super::output::{check_size, json};
use super::waiting::Options;
use rhai::plugin::*;
use serde_json::Value;
use valvehouse_dialect::call::redaction::excerpt;
use valvehouse_dialect::value::{Shape, json_of, live};
use valvehouse_dialect::{budget, call};
use valvehouse_json::Json;
use valvehouse_jwt::{Algorithm, MAX_TOKEN, SigningKey, VerifyingKey};

/// The cost of an RSA signature, in operations: reading, checking and using the key takes up to 10 ms.
const RSA_SIGNS: u64 = 100_000;
/// The cost of a verification, and of a signature with another algorithm, in operations.
const OTHERWISE: u64 = 4_000;
/// The maximum size of claims, in bytes before base64.
const MAX_CLAIMS: usize = 32 << 10;

#[export_module]
pub(super) mod functions {
    /// Signs claims as a JSON web token: `jwt::sign(#{ iss: "me", exp: time::unix() + 600 }, key, #{ algorithm: "RS256" })`.
    /// `algorithm` is `"HS256"` with a secret as key, or `"RS256"` or `"ES256"` with the PEM of a private key (`PRIVATE
    /// KEY`, for RSA also `RSA PRIVATE KEY`); `kid` names the key in the token. The claims have at most 32 KiB.
    #[rhai_fn(return_raw, volatile)]
    pub fn sign(claims: AnyMap, key: TextOrBytes, options: AnyMap) -> RhaiResultOf<String> {
        let options = Options::of(SIGN, &options)?;
        let algorithm = algorithm(&options)?;
        let claims = match json_of(&claims)? {
            claims @ Json::Object(_) => claims,
            _ => return Err(unfit(SIGN, "claims", "a map", &claims)),
        };
        let text = json(SIGN, &claims, None)?;
        if text.len() > MAX_CLAIMS {
            return Err(fail(
                SIGN,
                format!("the claims have {} bytes and exceeded their limit of 32 KiB", text.len()),
            ));
        }
        check_size(SIGN, text.len() * 2)?;
        let claims: Value = serde_json::from_str(&text).map_err(|error| fail(SIGN, error))?;
        charge(if algorithm == Algorithm::Rs256 { RSA_SIGNS } else { OTHERWISE })?;
        let kid = one_text(SIGN, &options, "kid")?;
        // An ES256 signature is different each time, so it is recorded.
        let arguments = || vec![Json::from(algorithm.as_str()), claims.to_string().into()].into();
        host_calls::once(SIGN, arguments, || {
            with_bytes(SIGN, "key", &key, |key| {
                let key = SigningKey::new(algorithm, key).map_err(|why| fail(SIGN, why))?;
                valvehouse_jwt::sign(&claims, algorithm, &key, kid).map_err(|why| fail(SIGN, why))
            })
        })
    }

    /// Verifies a JSON web token and returns its claims; throws an error if it is invalid. `key` is the secret of
    /// HS256, or the PEM (`PUBLIC KEY`) or JWK (a map) of a public key. `algorithm` is the expected one; a token with
    /// another is rejected. `exp` and `nbf` must be valid within `leeway` seconds (0); `audience` and `issuer` must
    /// match the token's, and a token with audiences requires `audience`.
    #[rhai_fn(return_raw, volatile)]
    pub fn verify(token: &str, key: Dynamic, options: AnyMap) -> RhaiResultOf<Dynamic> {
        let options = Options::of(VERIFY, &options)?;
        let algorithm = algorithm(&options)?;
        let leeway = match options.value("leeway") {
            None => 0.0,
            Some(leeway) => float(VERIFY, "leeway", &leeway)?,
        };
        if !(0.0..=600.0).contains(&leeway) {
            return Err(fail(VERIFY, format!("`leeway` must be from 0 to 600 seconds, not {leeway}")));
        }
        let (audience, issuer) =
            (one_text(VERIFY, &options, "audience")?, one_text(VERIFY, &options, "issuer")?);
        if token.len() > MAX_TOKEN {
            return Err(fail(
                VERIFY,
                format!("the token has {} bytes and exceeded its limit of 64 KiB", token.len()),
            ));
        }
        charge(OTHERWISE)?;
        let refused = |why: valvehouse_jwt::JwtError| fail(VERIFY, why);
        let checked = match json_of(&key) {
            Ok(jwk @ Json::Object(_)) => {
                let text = json(VERIFY, &jwk, None)?;
                let jwk: Value = serde_json::from_str(&text).map_err(|error| fail(VERIFY, error))?;
                VerifyingKey::of_jwk(algorithm, &jwk).map_err(refused)?
            }
            _ => with_bytes(VERIFY, "key", &key, |key| VerifyingKey::new(algorithm, key).map_err(refused))?,
        };
        let claims = valvehouse_jwt::verify(token, algorithm, &checked).map_err(refused)?;
        let now = host_calls::value("time::unix_ms", call::now_ms) as f64 / 1e3;
        check(&claims, now, leeway, audience.as_deref(), issuer.as_deref())
            .map_err(|why| fail(VERIFY, why))?;
        let claims = Json::parse(claims.to_string().as_bytes()).map_err(|error| fail(VERIFY, error))?;
        Ok(live(&claims, Shape::Plain))
    }
}

const SIGN: &str = "jwt::sign";
const VERIFY: &str = "jwt::verify";

/// Charges the operations of expensive work.
fn charge(operations: u64) -> RhaiResultOf<()> {
    budget::charge(operations).map_err(budget::ended)
}

fn algorithm(options: &Options<'_>) -> RhaiResultOf<Algorithm> {
    let given = options.value("algorithm").and_then(|value| value.into_immutable_string().ok());
    let given = given
        .ok_or_else(|| options.wrong("missing `algorithm`: expected \"HS256\", \"RS256\" or \"ES256\""))?;
    Algorithm::from_name(&given).ok_or_else(|| {
        let given = excerpt(&given);
        options.wrong(&format!("unknown algorithm `{given}`: expected HS256, RS256 or ES256"))
    })
}

/// Returns an option that is a text.
fn one_text(function: &str, options: &Options<'_>, name: &str) -> RhaiResultOf<Option<String>> {
    let Some(value) = options.value(name) else { return Ok(None) };
    match value.clone().into_immutable_string() {
        Ok(text) => Ok(Some(text.to_string())),
        Err(_) => Err(unfit(function, name, "a text", &value)),
    }
}

/// Checks the times, the audience and the issuer of claims.
fn check(
    claims: &Value,
    now: f64,
    leeway: f64,
    audience: Option<&str>,
    issuer: Option<&str>,
) -> Result<(), &'static str> {
    let time = |name: &str| match &claims[name] {
        Value::Null => Ok(None),
        value => value.as_f64().map(Some).ok_or("invalid time in the token: expected a number"),
    };
    if time("exp")?.is_some_and(|end| now >= end + leeway) {
        return Err("the token has expired");
    }
    if time("nbf")?.is_some_and(|begin| now < begin - leeway) {
        return Err("the token is not valid yet");
    }
    let is_for = |expected: &str| match &claims["aud"] {
        Value::Array(audiences) => audiences.iter().any(|one| one.as_str() == Some(expected)),
        one => one.as_str() == Some(expected),
    };
    match audience {
        Some(expected) if !is_for(expected) => return Err("the token has a different audience"),
        None if !claims["aud"].is_null() => {
            return Err("missing option `audience`: the token names an audience");
        }
        _ => {}
    }
    if issuer.is_some_and(|expected| claims["iss"].as_str() != Some(expected)) {
        return Err("the token has a different issuer");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{gives, refuses};

    /// Keys that were generated for these tests.
    const RSA: &str = include_str!("tests/rsa.pem");
    const RSA_PUBLIC: &str = include_str!("tests/rsa_public.pem");
    const EC: &str = include_str!("tests/ec.pem");
    const EC_PUBLIC: &str = include_str!("tests/ec_public.pem");

    /// Replaces the placeholders of a snippet by these keys.
    fn with_keys(snippet: &str) -> String {
        let literal = |pem: &str| format!("{pem:?}");
        snippet
            .replace("<RSA_PUBLIC>", &literal(RSA_PUBLIC))
            .replace("<EC_PUBLIC>", &literal(EC_PUBLIC))
            .replace("<RSA>", &literal(RSA))
            .replace("<EC>", &literal(EC))
    }

    fn give(cases: &[(&str, &str)]) {
        for (snippet, expected) in cases {
            gives(&[(&with_keys(snippet), expected)]);
        }
    }

    fn refuse(cases: &[(&str, &str)]) {
        for (snippet, words) in cases {
            refuses(&[(&with_keys(snippet), words)]);
        }
    }

    #[test]
    fn tokens_are_signed_and_checked_with_each_algorithm() {
        give(&[
            (
                r#"jwt::sign(#{ sub: "a" }, "secret", #{ algorithm: "HS256" })"#,
                r#""eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.HwNoQUqm5mQCypKq1yOyFzcPKYL8ZlOlXrx8II3KXT4""#,
            ),
            (
                r#"jwt::verify(jwt::sign(#{ sub: "a", n: [1] }, "secret".to_blob(), #{ algorithm: "HS256", kid: "k" }), "secret", #{ algorithm: "HS256" })"#,
                r#"{"n":[1],"sub":"a"}"#,
            ),
            (
                r#"jwt::verify(jwt::sign(#{ sub: "a" }, <RSA>, #{ algorithm: "RS256" }), <RSA_PUBLIC>, #{ algorithm: "RS256" })"#,
                r#"{"sub":"a"}"#,
            ),
            (
                r#"jwt::verify(jwt::sign(#{ sub: "a" }, <EC>, #{ algorithm: "ES256" }), <EC_PUBLIC>, #{ algorithm: "ES256" })"#,
                r#"{"sub":"a"}"#,
            ),
            (
                r#"let t = jwt::sign(#{ iss: "i", aud: ["x", "y"], exp: time::unix() + 60, nbf: time::unix() - 60 }, "s", #{ algorithm: "HS256" });
                empty(jwt::verify(t, "s", #{ algorithm: "HS256", audience: "y", issuer: "i" }))"#,
                "false",
            ),
            (
                r#"empty(jwt::verify(jwt::sign(#{ exp: time::unix() - 5 }, "s", #{ algorithm: "HS256" }), "s", #{ algorithm: "HS256", leeway: 60 }))"#,
                "false",
            ),
        ]);
    }

    /// The example of RFC 7515, A.3: the signature is valid, and the token has expired.
    #[test]
    fn a_published_token_is_valid_for_its_published_key() {
        let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        let key = r#"#{ kty: "EC", crv: "P-256", x: "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", y: "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }"#;
        let check = |token: &str| format!("jwt::verify({token:?}, {key}, #{{ algorithm: \"ES256\" }})");
        refuses(&[(&check(token), "the token has expired")]);
        refuses(&[(&check(&token.replace(".eyJpc3", ".eyJpc2")), "the signature of the token is not valid")]);
    }

    #[test]
    fn forged_tokens_are_rejected() {
        let none = r#"let head = base64::encode_url("{\"alg\":\"none\"}"); let t = head + "." + base64::encode_url("{\"sub\":\"root\"}") + "."; "#;
        let hmac = r#"let m = base64::encode_url("{\"alg\":\"HS256\"}") + "." + base64::encode_url("{\"sub\":\"root\"}");
            let t = m + "." + base64::encode_url(hash::hmac("sha256", <RSA_PUBLIC>, m)); "#;
        let critical = r#"let m = base64::encode_url("{\"alg\":\"HS256\",\"crit\":[\"b64\"],\"b64\":false}") + ".e30";
            let t = m + "." + base64::encode_url(hash::hmac("sha256", "s", m)); "#;
        let other = "the token is not signed with the expected algorithm";
        for (made, check, words) in [
            (none, r#"jwt::verify(t, <RSA_PUBLIC>, #{ algorithm: "RS256" })"#, other),
            (none, r#"jwt::verify(t, "s", #{ algorithm: "none" })"#, "unknown algorithm `none`"),
            (none, r#"jwt::verify(t, "s", #{ algorithm: "HS256" })"#, other),
            (hmac, r#"jwt::verify(t, <RSA_PUBLIC>, #{ algorithm: "RS256" })"#, other),
            (hmac, r#"jwt::verify(t, <RSA_PUBLIC>, #{ algorithm: "HS256" })"#, "the secret is a PEM key"),
            (critical, r#"jwt::verify(t, "s", #{ algorithm: "HS256" })"#, "an unknown extension (`crit`)"),
            (
                "",
                r#"jwt::verify(jwt::sign(#{}, "a", #{ algorithm: "HS256" }), "b", #{ algorithm: "HS256" })"#,
                "the signature of the token is not valid",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{ aud: "x" }, "a", #{ algorithm: "HS256" }), "a", #{ algorithm: "HS256" })"#,
                "missing option `audience`",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{ aud: "x" }, "a", #{ algorithm: "HS256" }), "a", #{ algorithm: "HS256", audience: "y" })"#,
                "a different audience",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{}, "a", #{ algorithm: "HS256" }), "a", #{ algorithm: "HS256", issuer: "y" })"#,
                "a different issuer",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{ exp: "soon" }, "a", #{ algorithm: "HS256" }), "a", #{ algorithm: "HS256" })"#,
                "expected a number",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{ nbf: time::unix() + 60 }, "a", #{ algorithm: "HS256" }), "a", #{ algorithm: "HS256" })"#,
                "not valid yet",
            ),
            (
                "",
                r#"jwt::verify(jwt::sign(#{}, <EC>, #{ algorithm: "ES256" }), <RSA_PUBLIC>, #{ algorithm: "ES256" })"#,
                "type does not match the algorithm",
            ),
            ("", r#"jwt::verify("a.b", "s", #{ algorithm: "HS256" })"#, "invalid JSON web token"),
            ("", r#"jwt::verify("a.b.c", "s", #{ algorithm: "HS256" })"#, "invalid JSON web token"),
            ("", r#"jwt::verify(big(70_000), "s", #{ algorithm: "HS256" })"#, "64 KiB"),
        ] {
            refuse(&[(&format!("{made}{check}"), words)]);
        }
    }

    #[test]
    fn invalid_keys_and_options_are_errors() {
        refuse(&[
            ("jwt::sign(#{}, \"s\", #{})", "missing `algorithm`"),
            ("jwt::sign(#{}, \"\", #{ algorithm: \"HS256\" })", "the secret is empty"),
            ("jwt::sign(#{}, <RSA>, #{ algorithm: \"HS256\" })", "the secret is a PEM key"),
            ("jwt::sign(#{}, <RSA_PUBLIC>, #{ algorithm: \"RS256\" })", "`-----BEGIN PRIVATE KEY-----`"),
            ("jwt::sign(#{}, <EC>, #{ algorithm: \"RS256\" })", "not a private key for the algorithm"),
            ("jwt::sign(#{}, <RSA>, #{ algorithm: \"ES256\" })", "not a private key for the algorithm"),
            ("jwt::sign([], \"s\", #{ algorithm: \"HS256\" })", "`claims` must be a map, not array"),
            ("jwt::sign(#{ a: big(40_000) }, \"s\", #{ algorithm: \"HS256\" })", "limit of 32 KiB"),
            (
                "jwt::sign(#{}, \"-----BEGIN EC PRIVATE KEY-----\\nAA==\\n-----END EC PRIVATE KEY-----\", #{ algorithm: \"ES256\" })",
                "openssl pkcs8 -topk8",
            ),
            (
                "jwt::verify(\"e30.e30.\", #{ kty: \"oct\", k: \"AA\" }, #{ algorithm: \"HS256\" })",
                "type does not match the algorithm",
            ),
            (
                "jwt::verify(\"e30.e30.\", #{ kty: \"RSA\", n: \"AQAB\", e: \"AQAB\", d: \"AA\" }, #{ algorithm: \"RS256\" })",
                "it is a private key; use the public key",
            ),
            (
                "jwt::verify(\"e30.e30.\", 5, #{ algorithm: \"HS256\" })",
                "`key` must be a text or bytes, not number",
            ),
            (
                "jwt::verify(\"e30.e30.\", \"s\", #{ algorithm: \"HS256\", leeway: 601 })",
                "from 0 to 600 seconds",
            ),
        ]);
    }
}
