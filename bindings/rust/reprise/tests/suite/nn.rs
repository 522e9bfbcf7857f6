//! The functions of reprise/nn.h: on slices, and on a device where there is one (on the simulated device in the gate).
use reprise::nn::{self, Stream};

#[test]
fn functions_compute() {
    let x = [1.0f32, 2.0, 3.0, 4.0, -1.0, 0.0];
    let mut y = [0.0f32; 6];
    nn::softmax(&x, &mut y, 2, 3).unwrap();
    assert!((y[0..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
    let mut z = x;
    nn::softmax_in_place(&mut z, 2, 3).unwrap();
    assert_eq!(z, y);
    nn::rmsnorm(&x, None, &mut y, 1, 6, 0.0).unwrap();
    assert!((y.iter().map(|v| v * v).sum::<f32>() - 6.0).abs() < 1e-4);
    let (mut values, mut ids) = ([0.0; 4], [0; 4]);
    nn::topk(&x, Some(&mut values), &mut ids, 2, 3, 2).unwrap();
    assert_eq!((values, ids), ([3.0, 2.0, 4.0, 0.0], [2, 1, 0, 2]));
    nn::add_in_place(&mut z, &x).unwrap();
    nn::silu(&[], &mut []).unwrap();
    assert_eq!(nn::abi_version(), reprise::sys::RP_NN_ABI_VERSION);
}

#[test]
fn the_device_gives_what_the_host_gives() {
    let stream = match Stream::new(0) {
        Ok(stream) => stream,
        Err(error) => {
            assert!(error.is_not_available(), "{}", error);
            assert!(nn::device_count().unwrap_err().is_not_available());
            return;
        }
    };
    let data: Vec<f32> = (0..1000).map(|i| (i as f32).sin()).collect();
    let x = stream.upload(&data).unwrap();
    let mut y = stream.buffer::<f32>(1000).unwrap();
    stream.silu(&x, &mut y).unwrap();
    let mut want = vec![0.0; 1000];
    nn::silu(&data, &mut want).unwrap();
    for (a, b) in y.to_vec().unwrap().iter().zip(&want) {
        assert!((a - b).abs() < 1e-5);
    }
    let error = stream.softmax(&x, &mut y, 10, 10).unwrap_err();
    assert_eq!(error.text(), "softmax: x has 1000 elements, 100 are wanted");
    let other = Stream::new(0).unwrap();
    let mut z = other.buffer::<f32>(1000).unwrap();
    let error = stream.silu(&x, &mut z).unwrap_err();
    assert_eq!(error.text(), "silu: y belongs to another stream");
    assert!(nn::device_info(0).unwrap().multiprocessors > 0);
    assert!(y.copy_from(&x).is_ok() && y.to_vec().unwrap() == data);
    assert!(Stream::new(99).is_err());
    println!("computed on {}", nn::device_info(0).unwrap().name);
}
