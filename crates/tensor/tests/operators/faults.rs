//! An index out of range is a fault of the stream on the host: who reads the result is told of it, and the stream goes
//! on once it is recovered.

use streampool_tensor::{Combine, DType, Error, Tensor};

use crate::{assert_near, common::unwatched_pool, indices, values, whole};

#[test]
fn an_index_out_of_range_reaches_who_reads_and_the_stream_recovers() {
    let pool = unwatched_pool();
    let x = whole(&pool, &[4, 3], 1, DType::F32);
    let given = values(&x);
    let (far, update) = (
        indices(&pool, &[0, 4], &[2]),
        whole(&pool, &[2, 3], 2, DType::F32),
    );
    let (wide, deep) = (
        indices(&pool, &[-5; 3], &[1, 3]),
        indices(&pool, &[9, 0], &[1, 2]),
    );
    let places = indices(&pool, &[7], &[1]);
    let one = whole(&pool, &[1], 3, DType::F32);
    pool.synchronize().unwrap();
    type Call<'a> = &'a dyn Fn() -> Result<Tensor, Error>;
    let cases: [(&str, Call<'_>); 8] = [
        ("gather", &|| x.index_select(0, &far)),
        ("gather", &|| x.embedding(&far)),
        ("gather", &|| x.gather(0, &wide)),
        ("gather", &|| x.gather_nd(0, &deep)),
        ("gather", &|| {
            x.reshape(&[-1])?.take(&indices(&pool, &[12], &[1]))
        }),
        ("scatter", &|| x.index_add(0, &far, &update)),
        ("scatter", &|| x.scatter(0, &wide, &update.narrow(0, 0, 1)?)),
        ("scatter", &|| {
            one.scatter_nd(&places.view(&[1, 1])?, &one, Combine::Max)
        }),
    ];
    for (kind, case) in cases {
        // The call itself does not wait, so it cannot know.
        let result = case().unwrap();
        let error = result.to_vec::<f32>().unwrap_err();
        let Error::Runtime(fault) = &error else {
            panic!("{error}");
        };
        let fault = fault.fault().unwrap_or_else(|| panic!("{error}"));
        assert!(fault.message().contains("index"), "{error}");
        assert_eq!(fault.op().name(), kind);
        // Until it is recovered, the stream takes nothing more.
        assert!(x.add(1.0).is_err());
        pool.current().unwrap().recover().unwrap();
        // What the failed work would have made stays failed; what was there before is as it was.
        assert!(result.to_vec::<f32>().is_err(), "{kind}");
        pool.current().unwrap().recover().unwrap();
        assert_near(&x, &given, 0.0);
    }
}

#[test]
fn other_threads_go_on() {
    let pool = unwatched_pool();
    let x = whole(&pool, &[4, 3], 4, DType::F32);
    let far = indices(&pool, &[4], &[1]);
    pool.synchronize().unwrap();
    let failed = x.index_select(0, &far).unwrap();
    assert!(failed.synchronize().is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_near(&x.add(0.0).unwrap(), &values(&x), 0.0);
            // Who uses the failed result is told so.
            let used = failed.add(1.0).and_then(|used| used.to_vec::<f32>());
            assert!(used.unwrap_err().to_string().contains("index"));
        });
    });
    pool.current().unwrap().recover().unwrap();
}
