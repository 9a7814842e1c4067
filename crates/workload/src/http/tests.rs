//! Paths with their shares, and requests as programs.

use std::collections::BTreeMap;

use plimsoll_core::{Answer, HttpRequest, Outcome, ParamValue, RequestHeader, Step};
use proptest::prelude::*;

use super::*;

fn made(paths: &str) -> Result<Paths, WorkloadError> {
    Paths::new(5, &Params([("paths".to_owned(), ParamValue::Text(paths.to_owned()))].into()))
}

fn asked(requests: &Paths, client: u32, cycles: std::ops::Range<u64>) -> Vec<String> {
    let stream = requests.stream(&StreamSpec::One { kind: "get".into(), clients: 4 }).unwrap();
    let mut params = ValueBuf::new();
    let mut ask = |cycle| {
        params.clear();
        assert_eq!(stream.op(client, cycle, &mut params), Some(0));
        let Value::Text(path) = params.values().get(0) else { panic!("a path is a text") };
        path.to_owned()
    };
    cycles.map(&mut ask).collect()
}

#[test]
fn every_round_has_each_path_as_often_as_its_share() {
    let requests = made("/=9, /bytes/65536=3 /once").unwrap();
    for round in 0..20 {
        let mut counts = BTreeMap::new();
        for path in asked(&requests, 1, round * 13..(round + 1) * 13) {
            *counts.entry(path).or_insert(0) += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(path, count)| (path.as_str(), *count)).collect();
        assert_eq!(counts, [("/", 9), ("/bytes/65536", 3), ("/once", 1)]);
    }
    assert_eq!(asked(&requests, 2, 0..100), asked(&requests, 2, 0..100));
    assert_ne!(asked(&requests, 2, 0..100), asked(&requests, 3, 0..100));
    assert_ne!(asked(&requests, 2, 0..13), asked(&requests, 2, 13..26));
}

#[test]
fn a_path_alone_stands_in_the_request() {
    for (paths, target) in [("", ""), ("/", "/"), ("/a=4", "/a"), ("/find?q=%20&n=7", "/find?q=%20&n=7")] {
        let requests = made(paths).unwrap();
        let Call::Http(call) = &requests.kinds()[0].call else { panic!("it is a request") };
        assert_eq!((call.target.to_string().as_str(), requests.kinds()[0].params.len()), (target, 0));
    }
}

#[test]
fn what_is_no_list_of_paths_is_refused() {
    for paths in ["x", "/a=b", "/a=0", "/a b", "/{}", "/a,/b?q=1", "/a%20=1,/b", "/a=9999999,/b"] {
        let error = made(paths).err().unwrap_or_else(|| panic!("{paths} was taken"));
        assert!(error.help.is_some(), "{paths}");
    }
}

fn request(method: &str, path: &str) -> HttpRequest {
    HttpRequest { method: method.into(), path: path.into(), ..HttpRequest::default() }
}

fn requested(requests: Vec<HttpRequest>) -> Result<Scripts, WorkloadError> {
    let params = Params([("define".to_owned(), ParamValue::Text("user=ada".to_owned()))].into());
    own(5, &params, &[Script { name: "own".into(), weight: 1, requests, ..Script::default() }])
}

fn call(requests: &Scripts, kind: usize) -> &HttpCall {
    let Call::Http(call) = &requests.kinds()[kind].call else { panic!("it is a request") };
    call
}

#[test]
fn a_request_alone_is_one_plain_operation() {
    let header = RequestHeader { name: "X-Client".into(), value: "${client_id}-${cycle}".into() };
    let requests = requested(vec![HttpRequest {
        headers: vec![header],
        body: Some(r#"{"n": ${:sequence * 2}, "user": "${user}", "raw": "$${x}"}"#.into()),
        set: vec![("id".into(), "random(1, 9)".into())],
        ..request("POST", "/items/${id}")
    }])
    .unwrap();
    assert_eq!(requests.kinds().len(), 1);
    let call = call(&requests, 0);
    assert_eq!(call.body.as_ref().unwrap().to_string(), r#"{"n": {}, "user": "{}", "raw": "${x}"}"#);
    let stream = requests.stream(&StreamSpec::One { kind: "own".into(), clients: 4 }).unwrap();
    assert!(stream.steps(0).is_none());
    let mut ids = std::collections::BTreeSet::new();
    for cycle in 0..200 {
        let mut params = ValueBuf::new();
        assert_eq!(stream.op(3, cycle, &mut params), Some(0));
        let values: Vec<Value<'_>> = params.values().iter().collect();
        let Value::Int(id) = values[0] else { panic!("{values:?}") };
        ids.insert(id);
        let number = i64::try_from(cycle).unwrap();
        let expected = [Value::Int(3), Value::Int(number), Value::Int((number * 4 + 3) * 2), Value::Text("ada")];
        assert_eq!(values[1..], expected);
    }
    assert_eq!(ids, (1..=9).collect());
}

#[test]
fn what_one_answer_gives_the_next_request_takes() {
    let requests = requested(vec![
        HttpRequest { take: vec![("token".into(), "json:data.token".into())], ..request("POST", "/login") },
        HttpRequest {
            headers: vec![RequestHeader { name: "Authorization".into(), value: "Bearer ${token}".into() }],
            expect: "200-204, 404".into(),
            ..request("GET", "/me")
        },
    ])
    .unwrap();
    let names: Vec<&str> = requests.kinds().iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["own", "own/1 POST /login", "own/2 GET /me"]);
    assert_eq!(call(&requests, 2).expect, [(200, 204), (404, 404)]);
    assert_eq!(requests.place(2).as_deref(), Some("own:2"));
    let stream = requests.stream(&StreamSpec::One { kind: "own".into(), clients: 1 }).unwrap();
    let mut steps = stream.steps(0).unwrap();
    let mut params = ValueBuf::new();
    steps.begin(0, 0, params.values());
    assert_eq!(steps.next(&mut params), Step::Send { kind: 1, more: false });
    let mut answer = Answer { columns: 1, rows: 1, ..Answer::default() };
    answer.values.push(Value::Text("t-7"));
    steps.answered(Outcome::Ok, &answer);
    assert_eq!(steps.next(&mut params), Step::Send { kind: 2, more: false });
    assert_eq!(params.values().iter().collect::<Vec<_>>(), [Value::Text("t-7")]);
    steps.answered(Outcome::Ok, &Answer::default());
    assert_eq!(steps.next(&mut params), Step::End { kind: 0, outcome: Outcome::Ok });
}

#[test]
fn what_is_wrong_in_a_request_is_said_with_its_name() {
    let take = |place: &str| HttpRequest { take: vec![("a".into(), place.into())], ..request("GET", "/") };
    for (request, words) in [
        (request("GET", "items"), "`items` is not a path"),
        (request("GET", "/${other}"), "nothing gives `other` a value"),
        (request("GET", "/${random(1}"), "`path`: `random(1`"),
        (request("GET", "/${id"), "without its `}`"),
        (HttpRequest { expect: "2xx".into(), ..request("GET", "/") }, "`2xx` is not a status"),
        (HttpRequest { expect: "300-200".into(), ..request("GET", "/") }, "not a status"),
        (HttpRequest { set: vec![("1a".into(), "1".into())], ..request("GET", "/") }, "`1a` is not a name"),
        (take("xpath://a"), "nothing that can be taken"),
        (take("json:"), "nothing that can be taken"),
    ] {
        let error = requested(vec![request]).err().unwrap_or_else(|| panic!("{words}"));
        assert!(error.what.starts_with("the request `own`") && error.what.contains(words), "{error}");
        assert!(error.help.is_some() && error.place == Some((0, 0..0)), "{error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text of a request is compiled or refused.
    #[test]
    fn no_text_of_a_request_panics(path in "[/${}:a-z0-9(),. *+-]{0,40}", body in ".{0,60}", place in ".{0,20}") {
        let requests = requested(vec![HttpRequest {
            body: Some(body),
            set: vec![("v".into(), path.clone())],
            take: vec![("t".into(), place)],
            ..request("PUT", &path)
        }]);
        if let Ok(requests) = requests {
            prop_assert!(requests.kinds().iter().all(|kind| kind.name.starts_with("own")));
        }
    }
}
