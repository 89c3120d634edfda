//! Compares `schema.json` with what is printed: it must list exactly the printed fields, with their types.

use super::connections::tests::quiet;
use super::{
    Advice, BackendMemory, HugePages, JSON_SCHEMA, MachineFacts, PoolFacts, PoolerFacts, SCHEMA, SizingFacts, judge,
};
use crate::cache::{MissDetails, Reads, Unseen, UsageCounts};
use serde_json::{Value, json};

/// What is wrong with `value`, in the words of JSON Schema that `schema.json` uses.
fn check(root: &Value, schema: &Value, value: &Value, path: &str, wrong: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("references within the file");
        return check(root, root.pointer(pointer).expect("a definition"), value, path, wrong);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = |schema: &Value| {
            let mut wrong = Vec::new();
            check(root, schema, value, path, &mut wrong);
            wrong.is_empty()
        };
        if !any.iter().any(fits) {
            wrong.push(format!("{path}: fits none of anyOf: {value}"));
        }
        return;
    }
    if let Some(words) = schema["enum"].as_array() {
        if !words.contains(value) {
            wrong.push(format!("{path}: {value} is not one of {words:?}"));
        }
        return;
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed =
        |word: &str| schema["type"] == word || schema["type"].as_array().is_some_and(|t| t.contains(&json!(word)));
    let fits = allowed(is) || is == "integer" && allowed("number");
    if !fits {
        wrong.push(format!("{path}: {is} and not {}", schema["type"]));
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], item, &format!("{path}[{i}]"), wrong);
    }
    if let Some(object) = value.as_object() {
        check_fields(root, schema, object, path, wrong);
    }
}

/// The same for the fields of an object.
fn check_fields(
    root: &Value,
    schema: &Value,
    object: &serde_json::Map<String, Value>,
    path: &str,
    wrong: &mut Vec<String>,
) {
    for name in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(name.as_str().expect("a name")) {
            wrong.push(format!("{path}: {name} is required"));
        }
    }
    for (name, field) in object {
        match (schema["properties"].get(name), &schema["additionalProperties"]) {
            (Some(known), _) => check(root, known, field, &format!("{path}.{name}"), wrong),
            (None, Value::Object(_)) => {
                check(
                    root,
                    &schema["additionalProperties"],
                    field,
                    &format!("{path}.{name}"),
                    wrong,
                );
            }
            (None, _) => wrong.push(format!("{path}: {name} is not in the schema")),
        }
    }
}

/// An advice in which no part is missing.
fn whole() -> Value {
    let mut facts = quiet();
    let reads = Reads {
        details: Some(MissDetails::default()),
        miss_ms: Some(0.5),
        ..Reads::default()
    };
    facts.reads_now = Some(reads);
    facts.reads_before = Some(reads);
    facts.usage = Some(UsageCounts {
        block_bytes: 8192,
        ..UsageCounts::default()
    });
    facts.backends = Some(BackendMemory::default());
    facts.machine = Some(MachineFacts {
        huge_pages: HugePages::default(),
        ..MachineFacts::default()
    });
    facts.sessions.idle = 300;
    facts.sessions.total = 310;
    facts.sessions.active_waits.insert("Lock".to_owned(), 0.5);
    let mut pooler = PoolerFacts {
        pools: vec![PoolFacts::default()],
        sizings: vec![SizingFacts::default()],
        ..PoolerFacts::default()
    };
    pooler.config.insert("max_client_conn".to_owned(), "100".to_owned());
    let unseen = Unseen {
        what: "it".to_owned(),
        why: "no right".to_owned(),
        how: "grant it".to_owned(),
    };
    let advice = Advice {
        schema: SCHEMA,
        findings: judge(Some(&facts), Some(&pooler)),
        unseen: vec![unseen],
        facts: Some(facts),
        pooler: Some(pooler),
    };
    serde_json::to_value(advice).expect("fields that JSON knows")
}

fn wrong(schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    check(schema, schema, value, "", &mut wrong);
    wrong
}

#[test]
fn the_schema_describes_what_is_printed() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).expect("JSON");
    let advice = whole();
    assert_eq!(wrong(&schema, &advice), Vec::<String>::new());
    let empty = json!({"schema": SCHEMA, "findings": [], "unseen": [], "facts": null, "pooler": null});
    assert_eq!(wrong(&schema, &empty), Vec::<String>::new());
}

#[test]
fn every_definition_requires_all_of_its_fields_and_allows_no_other() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).expect("JSON");
    let definitions = schema["$defs"].as_object().expect("definitions");
    for object in definitions
        .values()
        .chain([&schema])
        .filter(|d| d["properties"].is_object())
    {
        let fields = object["properties"].as_object().expect("fields");
        let required = object["required"].as_array().expect("names");
        assert_eq!(
            (fields.len(), &object["additionalProperties"]),
            (required.len(), &json!(false)),
            "{object}"
        );
    }
}

/// Guards against a check that finds everything right.
#[test]
fn what_does_not_fit_is_noticed() {
    let schema: Value = serde_json::from_str(JSON_SCHEMA).expect("JSON");
    for (pointer, other) in [
        ("/schema", json!("1")),
        ("/findings/0/severity", json!("bad")),
        ("/facts/sessions/idle", json!(0.5)),
        ("/facts/usage", json!({"levels": []})),
        ("/pooler/config/max_client_conn", json!(100)),
    ] {
        let mut advice = whole();
        *advice.pointer_mut(pointer).expect("a field") = other;
        assert!(!wrong(&schema, &advice).is_empty(), "{pointer}");
    }
}
