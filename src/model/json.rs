//! Reads JSON as Go and Cloudflare write it: `null` for nothing, and numbers in several forms.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::model::text::mask_userinfo;

/// Reads `null` like a missing member.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// JSON for a log line, from which it can be copied: on one line, in ASCII, and without the user and the password of a
/// URL.
pub(crate) fn masked_json(json: &str) -> String {
    // Some writers escape a slash.
    let masked = mask_userinfo(&mask_userinfo(json, "://"), r":\/\/");
    let shown = masked.chars().map(|character| match character {
        '\n' | '\r' | '\t' => " ".to_owned(),
        ' '..='~' => character.to_string(),
        _ => character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    });
    shown.collect()
}

/// Reads a number that may be written as an integer, as a decimal fraction or as text; `None` for everything else, and
/// if `T` cannot hold the number.
pub(crate) fn number_in_any_form<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<i64>,
{
    let number = match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_f64(),
        // `str::parse` would add 4 KB to the program.
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    let number = number.filter(|number: &f64| number.is_finite());
    Ok(number.and_then(|number| T::try_from(number as i64).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_text_is_one_line_of_ascii_that_says_the_same_without_a_password() {
        for (json, expected) in [
            ("{\n\t\"a\" :\r\n[1,null]}", "{  \"a\" :  [1,null]}".to_owned()),
            (r#"{"ü":"\"x\u00fc\u2028😀"}"#, r#"{"\u00fc":"\"x\u00fc\u2028\ud83d\ude00"}"#.to_owned()),
            (
                r#"["http:\/\/jo:p\u0026w@a","http://b"]"#,
                r#"["http:\/\/[redacted]@a","http://b"]"#.to_owned(),
            ),
            (r#"["http://a:80","c@d"]"#, r#"["http://a:80","c@d"]"#.to_owned()),
        ] {
            assert_eq!(masked_json(json), expected);
        }
    }

    #[test]
    fn a_number_is_read_in_any_form_and_anything_else_as_none() {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default, deserialize_with = "number_in_any_form")]
            number: Option<u32>,
        }
        for (json, expected) in [
            (r#"{"number":7}"#, Some(7)),
            (r#"{"number":7.0}"#, Some(7)),
            (r#"{"number":"7"}"#, Some(7)),
            (r#"{"number":"7.0"}"#, Some(7)),
            (r#"{"number":3e2}"#, Some(300)),
            ("{}", None),
            (r#"{"number":null}"#, None),
            (r#"{"number":""}"#, None),
            (r#"{"number":"auto"}"#, None),
            (r#"{"number":"NaN"}"#, None),
            (r#"{"number":-1}"#, None),
            (r#"{"number":4294967296}"#, None),
            (r#"{"number":1e300}"#, None),
            (r#"{"number":[7]}"#, None),
            (r#"{"number":{"a":7}}"#, None),
            (r#"{"number":true}"#, None),
        ] {
            let wire: Wire = serde_json::from_str(json).expect("no form is an error");
            assert_eq!(wire.number, expected, "{json}");
        }
    }
}
