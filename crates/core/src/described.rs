//! JSON that is put together from values: each field is declared once, with its name, its schema and its value.

/// Declares the fields of an object: a function that returns it, after the statements of `with`, and a type that is its
/// schema. `..facts: Facts = facts(one),` in front adds the fields of another object.
///
/// ```ignore
/// described! {
///     /// A line that a script logged.
///     #[cfg(feature = "typed")]
///     pub struct TraceLine;
///     fn line(line: &Line) {
///         at_ms: f64 = ms(line.at),
///         kind as "type": String = line.kind.as_str(),
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! described {
    (
        $(#[$meta:meta])* $visibility:vis struct $type:ident $(as $schema:literal)?;
        $(#[$of_function:meta])* $shown:vis fn $function:ident($($from:ident: $from_type:ty),+ $(,)?)
            $(with { $($prepare:tt)* })?
        {
            $(..$part:ident: $of_part:ty = $parts:expr,)*
            $($(#[$attribute:meta])* $name:ident $(as $key:literal)?: $field:ty = $value:expr),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(schemars::JsonSchema)]
        $(#[schemars(rename = $schema)])?
        #[expect(dead_code, reason = "it is the schema of the fields")]
        $visibility struct $type {
            $(#[serde(flatten)] $part: $of_part,)*
            $($(#[$attribute])* $(#[schemars(rename = $key)])? $name: $field),*
        }

        $(#[$of_function])*
        $shown fn $function($($from: $from_type),+) -> valvehouse_json::Json {
            $($($prepare)*)?
            $crate::described!(@joined $($parts,)*; valvehouse_json::Json::from([
                $(($crate::described!(@key $name $($key)?), valvehouse_json::Json::from($value))),*
            ]))
        }
    };
    (@joined ; $own:expr) => { $own };
    (@joined $($parts:expr,)+; $own:expr) => {
        [$($parts,)+ $own].iter().flat_map(|part| part.entries()).collect::<valvehouse_json::Object>().into()
    };
    (@key $name:ident) => { stringify!($name) };
    (@key $name:ident $key:literal) => { $key };
}
