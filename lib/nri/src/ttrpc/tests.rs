//! Tests of frames byte by byte, and of both ends. Expected bytes follow the specifications of the protocol and of protocol buffers.

use super::*;
use futures_util::FutureExt;
use tokio::io::{DuplexStream, duplex};

const LONG: Duration = Duration::from_secs(20);

fn block_on<T>(what: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
}

/// The frame of a request to service `s` without a timeout.
fn request(stream: u32, method: &str, payload: &[u8]) -> Vec<u8> {
    let request = Request {
        service: "s".to_owned(),
        method: method.to_owned(),
        payload: payload.to_vec(),
        timeout_nano: 0,
    };
    Frame::bytes(stream, REQUEST, &request).unwrap()
}

/// A service with one method, which returns its payload twice.
fn twice(method: &str, payload: &[u8]) -> Result<Vec<u8>, Status> {
    match method {
        "twice" => Ok([payload, payload].concat()),
        other => Err(Status::new(Code::Unimplemented, format!("no {other}"))),
    }
}

/// The output of service `s` for these bytes and an end of file. Never blocks.
fn answered(bytes: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    let end = answer(bytes, &mut written, "s", twice).now_or_never().expect("all bytes are there");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    written
}

/// All responses in these bytes.
fn responses(mut bytes: &[u8]) -> Vec<(u32, Result<Vec<u8>, Status>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let frame = Frame::read(&mut bytes).now_or_never().unwrap().unwrap();
        assert_eq!(frame.kind, RESPONSE);
        let response = Response::decode(frame.data.unwrap().as_slice()).unwrap();
        all.push((frame.stream, response.status.map_or(Ok(response.payload), Err)));
    }
    all
}

/// The stream and the code of each response; 0 for an answer.
fn codes(bytes: &[u8]) -> Vec<(u32, i32)> {
    let code = |answer: Result<Vec<u8>, Status>| answer.map_or_else(|status| status.code, |_| 0);
    responses(bytes).into_iter().map(|(stream, answer)| (stream, code(answer))).collect()
}

/// Reads a request at the other end of a client.
async fn asked(far: &mut DuplexStream) -> (u32, Request) {
    let frame = Frame::read(far).await.unwrap();
    assert_eq!(frame.kind, REQUEST);
    (frame.stream, Request::decode(frame.data.unwrap().as_slice()).unwrap())
}

#[test]
fn a_request_has_the_bytes_of_the_specification() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let far_end = async {
            let mut got = [0; 25];
            far.read_exact(&mut got).await.unwrap();
            // A second is 1,000,000,000 ns, as a varint: groups of seven bits, lowest first.
            let data = b"\x0a\x01s\x12\x01m\x1a\x01\xab\x20\x80\x94\xeb\xdc\x03";
            assert_eq!(got[..10], *b"\0\0\0\x0f\0\0\0\x01\x01\0");
            assert_eq!(got[10..], *data);
            far.write_all(b"\0\0\0\x03\0\0\0\x01\x02\0\x12\x01x").await.unwrap();
            let mut got = [0; 10];
            far.read_exact(&mut got).await.unwrap();
            assert_eq!(got, *b"\0\0\0\x0c\0\0\0\x03\x01\0", "the second number is 3; no payload");
            far.write_all(b"\0\0\0\0\0\0\0\x03\x02\0").await.unwrap();
        };
        let second = Duration::from_secs(1);
        let calls = async {
            assert_eq!(client.call("s", "m", vec![0xab], second).await, Ok(b"x".to_vec()));
            assert_eq!(client.call("s", "m", Vec::new(), second).await, Ok(Vec::new()));
        };
        tokio::join!(far_end, calls);
    });
}

#[test]
fn a_response_has_the_bytes_of_the_specification() {
    let asks = b"\0\0\0\x0d\0\0\0\x07\x01\0\x0a\x01s\x12\x05twice\x1a\x01z";
    assert_eq!(answered(asks), b"\0\0\0\x04\0\0\0\x07\x02\0\x12\x02zz");
    // Code 12 and a message, in field 1.
    let asks = b"\0\0\0\x06\0\0\0\x09\x01\0\x0a\x01s\x12\x01m";
    assert_eq!(answered(asks), b"\0\0\0\x0a\0\0\0\x09\x02\0\x0a\x08\x08\x0c\x12\x04no m");
}

#[test]
fn an_unknown_service_or_method_is_unimplemented_and_the_next_call_is_answered() {
    let other = Request { service: "t".to_owned(), method: "twice".to_owned(), ..Request::default() };
    let other = Frame::bytes(1, REQUEST, &other).unwrap();
    let asks = [other, request(3, "thrice", b""), request(5, "twice", b"ab")].concat();
    assert_eq!(codes(&answered(&asks)), [(1, 12), (3, 12), (5, 0)]);
}

#[test]
fn what_is_no_request_gets_no_answer_or_an_error_and_the_next_call_is_answered() {
    let mut no_request = request(1, "twice", b"");
    no_request.truncate(HEADER);
    no_request.extend([0xff].repeat(no_request[3].into()));
    let even = request(2, "twice", b"");
    // Stream data, a response, and an unknown frame type.
    let passed = b"\0\0\0\x01\0\0\0\x01\x03\x01x\0\0\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\0\x01\xff\xff";
    let asks = [&no_request[..], &even, passed, &request(5, "twice", b"ab")].concat();
    let answers = responses(&answered(&asks));
    assert_eq!(codes(&answered(&asks)), [(1, 3), (2, 3), (5, 0)]);
    assert_eq!(answers[2].1, Ok(b"abab".to_vec()));
}

#[test]
fn a_frame_above_the_limit_is_an_error_of_its_stream_and_the_next_call_is_answered() {
    // 4,194,305 bytes.
    let mut asks = b"\0\x40\0\x01\0\0\0\x03\x01\0".to_vec();
    asks.resize(HEADER + 4_194_305, 0x0a);
    asks.extend(request(5, "twice", b"ab"));
    let answers = responses(&answered(&asks));
    let why = "a message has 4194305 bytes, and 4194304 is the limit";
    let too_long = Status { code: 8, message: why.to_owned() };
    assert_eq!(answers, [(3, Err(too_long)), (5, Ok(b"abab".to_vec()))]);
    // Two tags with lengths before the service and the method, one before the payload: 3, 7 and 5 bytes.
    let mut longest = request(7, "twice", &vec![7; 4_194_304 - 15]);
    assert_eq!(longest[..4], *b"\0\x40\0\0");
    longest.extend(request(9, "twice", b""));
    // The request is within the limit, its response is not.
    assert_eq!(codes(&answered(&longest)), [(7, 8), (9, 0)]);
}

#[test]
fn a_frame_that_ends_early_is_the_end_and_gets_no_answer() {
    let whole = request(1, "twice", b"ab");
    for length in 0..whole.len() {
        assert_eq!(answered(&whole[..length]), b"", "{length}");
    }
    assert_eq!(codes(&answered(&whole)), [(1, 0)]);
    // 4 GiB are announced and never sent.
    assert_eq!(answered(b"\xff\xff\xff\xff\0\0\0\x01\x01\0abc"), b"");
    assert_eq!(answered(b"\0\x40\0\x01\0\0\0\x01\x01\0abc"), b"");
}

#[test]
fn a_request_above_the_limit_is_not_sent() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let refused = client.call("s", "m", vec![0; DATA_MAX], LONG).await.unwrap_err();
        assert_eq!(refused.code, 8, "{refused:?}");
        let far_end = async {
            let (stream, request) = asked(&mut far).await;
            assert_eq!((stream, request.method.as_str()), (1, "n"), "no number is left out");
            far.write_all(&response(1, Ok(Vec::new()))).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.call("s", "n", Vec::new(), LONG), far_end);
        assert_eq!(answer, Ok(Vec::new()));
    });
}

#[test]
fn calls_under_way_together_get_their_own_answers_in_any_order() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let call = |name: &'static str| client.call("s", name, Vec::new(), LONG);
        let far_end = async {
            let mut asks = Vec::new();
            for _ in 0..3 {
                asks.push(asked(&mut far).await);
            }
            assert_eq!(asks.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [1, 3, 5]);
            for (stream, request) in asks.into_iter().rev() {
                // A response without a waiting call, and a frame of an unknown type.
                far.write_all(&response(stream + 100, Ok(b"other".to_vec()))).await.unwrap();
                far.write_all(&Frame::bytes(stream, 9, &Response::default()).unwrap()).await.unwrap();
                far.write_all(&response(stream, Ok(request.method.into()))).await.unwrap();
            }
        };
        let (a, b, c, ()) = tokio::join!(call("a"), call("b"), call("c"), far_end);
        assert_eq!([a, b, c], [b"a", b"b", b"c"].map(|name| Ok(name.to_vec())));
    });
}

#[test]
fn an_answer_may_be_an_error_or_none_or_above_the_limit() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let call = async || client.call("s", "m", Vec::new(), LONG).await;
        let far_end = async {
            let refusal = Status::new(Code::FailedPrecondition, "not today");
            let (first, _) = asked(&mut far).await;
            far.write_all(&response(first, Err(refusal))).await.unwrap();
            asked(&mut far).await;
            far.write_all(b"\0\0\0\x01\0\0\0\x03\x02\0\xff").await.unwrap();
            asked(&mut far).await;
            far.write_all(b"\0\x40\0\x01\0\0\0\x05\x02\0").await.unwrap();
            far.write_all(&vec![0; 4_194_305]).await.unwrap();
            // A status with code 0 is success.
            asked(&mut far).await;
            far.write_all(b"\0\0\0\x05\0\0\0\x07\x02\0\x0a\0\x12\x01x").await.unwrap();
        };
        let calls = async {
            assert_eq!(call().await, Err(Status { code: 9, message: "not today".to_owned() }));
            assert_eq!(call().await.unwrap_err().code, 3);
            assert_eq!(call().await.unwrap_err().code, 8);
            assert_eq!(call().await, Ok(b"x".to_vec()));
        };
        tokio::join!(calls, far_end);
    });
}

#[test]
fn a_call_fails_when_the_other_end_goes_and_so_do_later_ones() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let far_end = async {
            asked(&mut far).await;
            drop(far);
        };
        let (waited, ()) = tokio::join!(client.call("s", "m", Vec::new(), LONG), far_end);
        let ended = Status { code: 14, message: "the connection has ended".to_owned() };
        assert_eq!(waited, Err(ended.clone()));
        assert_eq!(client.call("s", "m", Vec::new(), LONG).await, Err(ended));
    });
}

#[test]
fn a_call_waits_no_longer_than_its_patience_and_its_late_answer_is_passed_over() {
    block_on(async {
        let (near, mut far) = duplex(1 << 10);
        let client = Client::new(near);
        let late = client.call("s", "m", Vec::new(), Duration::from_millis(5)).await;
        let message = "no answer came within 5ms".to_owned();
        assert_eq!(late, Err(Status { code: 4, message }));
        let far_end = async {
            let (first, request) = asked(&mut far).await;
            assert_eq!((first, request.timeout_nano), (1, 5_000_000));
            let (second, _) = asked(&mut far).await;
            far.write_all(&response(first, Ok(b"late".to_vec()))).await.unwrap();
            far.write_all(&response(second, Ok(b"own".to_vec()))).await.unwrap();
        };
        let (answer, ()) = tokio::join!(client.call("s", "m", Vec::new(), LONG), far_end);
        assert_eq!(answer, Ok(b"own".to_vec()));
    });
}

fn seeds() -> Vec<Vec<u8>> {
    let refusal = Status::new(Code::Unavailable, "no");
    vec![
        request(1, "twice", b"ab"),
        [request(3, "twice", b""), request(5, "thrice", &[0; 40])].concat(),
        [response(1, Ok(b"ab".to_vec())), response(3, Err(refusal))].concat(),
        b"\0\x40\0\x01\0\0\0\x01\x01\0abc".to_vec(),
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x02\xff".to_vec(),
        b"\0\0\0\x01\0\0\0\x01\x03\x05x\0\0\0\0\0\0\0\x03\x02\0".to_vec(),
    ]
}

#[test]
fn fuzz_frames_are_their_bytes() {
    let seeds = seeds();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    millpond_fuzz::check("nri-frames", &seeds, |bytes| {
        let mut rest = bytes;
        loop {
            let before = rest;
            let Ok(frame) = Frame::read(&mut rest).now_or_never().unwrap() else { break };
            let used = before.len() - rest.len();
            let length = frame.data.as_ref().map_or_else(|length| *length, Vec::len);
            assert_eq!(used, HEADER + length);
            assert_eq!(before[..4], u32::try_from(length).unwrap().to_be_bytes());
            assert_eq!((before[4..8].to_vec(), before[8]), (frame.stream.to_be_bytes().to_vec(), frame.kind));
            assert!(frame.data.map_or(length > DATA_MAX, |data| data == before[HEADER..used]));
        }
    });
}

#[test]
fn fuzz_both_ends_outlive_any_bytes() {
    let seeds = seeds();
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    millpond_fuzz::check("nri-calls", &seeds, |bytes| {
        // At most one response for each frame, all well-formed.
        assert!(responses(&answered(bytes)).len() <= bytes.len() / HEADER);
        let waiting = Waiting::default();
        let callers = [1, 3].map(|stream| {
            let (caller, answer) = oneshot::channel();
            await_answer(&waiting, stream, caller);
            answer
        });
        let end = hear(bytes, &waiting).now_or_never().unwrap();
        assert_eq!(end.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let still = lock(&waiting).len();
        let heard = callers.into_iter().filter_map(|answer| answer.now_or_never()).count();
        assert_eq!(heard + still, 2);
    });
}
