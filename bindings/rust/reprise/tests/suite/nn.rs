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

const Q8_0: i32 = reprise::sys::RP_Q8_0 as i32;

/// A matrix [2,32] of q8_0, a vector, and their product.
fn product() -> (Vec<u8>, Vec<f32>, Vec<f32>) {
    let w: Vec<f32> = (0..64).map(|i| (i as f32).cos()).collect();
    let x: Vec<f32> = (0..32).map(|i| (i as f32).sin()).collect();
    let mut blocks = vec![0; nn::quantized_bytes(Q8_0, 64).unwrap() as usize];
    nn::quantize(Q8_0, &w, &mut blocks).unwrap();
    let wanted = w.chunks(32).map(|row| row.iter().zip(&x).map(|(a, b)| a * b).sum()).collect();
    (blocks, x, wanted)
}

fn near(got: &[f32], wanted: &[f32]) {
    assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 0.2), "{:?} {:?}", got, wanted);
}

#[test]
fn quantised_products_and_gradients() {
    let (blocks, x, wanted) = product();
    let mut y = [0.0; 2];
    nn::gemv_q(Q8_0, &blocks, &x, &mut y, 2, 32).unwrap();
    near(&y, &wanted);
    let (mut grad, mut sums) = ([3.0, 4.0], [0.0; 1028]);
    nn::grad_norm(&grad, &mut sums, 1).unwrap();
    nn::grad_clip(&mut grad, &sums, 1.0).unwrap(); // the sums are the norm too
    near(&grad, &[0.6, 0.8]);
    let error = nn::gemv_q(99, &blocks, &x, &mut y, 2, 32).unwrap_err();
    assert!(error.text().starts_with("gemv_q: "), "{}", error);
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
    assert_eq!(error.text(), "softmax: x has 1000 elements, must be 100");
    let (blocks, v, wanted) = product();
    let mut planes = vec![0; blocks.len()];
    nn::repack(Q8_0, &blocks, &mut planes, 64).unwrap(); // as a device wants them
    let (w, v) = (stream.upload(&planes).unwrap(), stream.upload(&v).unwrap());
    let bytes = stream.gemv_q_workspace(Q8_0, 2, 32).unwrap();
    let mut workspace = stream.buffer(bytes as usize).unwrap();
    let mut p = stream.buffer(2).unwrap();
    stream.gemv_q(Q8_0, &w, &v, &mut p, 2, 32, &mut workspace).unwrap();
    near(&p.to_vec().unwrap(), &wanted);
    let other = Stream::new(0).unwrap();
    let mut z = other.buffer::<f32>(1000).unwrap();
    let error = stream.silu(&x, &mut z).unwrap_err();
    assert_eq!(error.text(), "silu: y belongs to another stream");
    assert!(nn::device_info(0).unwrap().multiprocessors > 0);
    assert!(y.copy_from(&x).is_ok() && y.to_vec().unwrap() == data);
    assert!(Stream::new(99).is_err());
    println!("computed on {}", nn::device_info(0).unwrap().name);
}
