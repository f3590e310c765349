/* dense: y = x kernel + bias */
static inline void NAME_dense(const float *restrict x, const float *restrict kernel, const float *restrict bias,
                              float *restrict y, int rows, int width, int units)
{
    for (int row = 0; row < rows; row++, x += width, y += units) {
        const float *weights = kernel;
        for (int j = 0; j < units; j++)
            y[j] = bias[j];
        for (int i = 0; i < width; i++, weights += units)
            for (int j = 0; j < units; j++)
                y[j] += x[i] * weights[j];
    }
}

/* conv2d: images are rows x columns x channels */
static inline void NAME_conv2d(const float *restrict x, const float *restrict kernel, const float *restrict bias,
                               float *restrict y, int rows, int columns, int channels, int out_rows, int out_columns,
                               int filters, int size_r, int size_c, int stride_r, int stride_c, int spread_r,
                               int spread_c, int pad_r, int pad_c)
{
    for (int r = 0; r < out_rows; r++) {
        for (int c = 0; c < out_columns; c++, y += filters) {
            for (int f = 0; f < filters; f++)
                y[f] = bias[f];
            for (int kr = 0; kr < size_r; kr++) {
                const int row = r * stride_r + kr * spread_r - pad_r;
                if (row < 0 || row >= rows)
                    continue;
                for (int kc = 0; kc < size_c; kc++) {
                    const int column = c * stride_c + kc * spread_c - pad_c;
                    if (column < 0 || column >= columns)
                        continue;
                    const float *pixel = x + ((long)row * columns + column) * channels;
                    const float *weights = kernel + ((long)kr * size_c + kc) * channels * filters;
                    for (int i = 0; i < channels; i++, weights += filters)
                        for (int f = 0; f < filters; f++)
                            y[f] += pixel[i] * weights[f];
                }
            }
        }
    }
}

/* pool2d: the average or the largest number of each window */
static inline void NAME_pool2d(const float *restrict x, float *restrict y, int average, int rows, int columns,
                               int channels, int out_rows, int out_columns, int size_r, int size_c, int stride_r,
                               int stride_c, int pad_r, int pad_c)
{
    for (int r = 0; r < out_rows; r++) {
        for (int c = 0; c < out_columns; c++, y += channels) {
            int count = 0;
            for (int kr = 0; kr < size_r; kr++) {
                for (int kc = 0; kc < size_c; kc++) {
                    const int row = r * stride_r + kr - pad_r, column = c * stride_c + kc - pad_c;
                    if (row < 0 || row >= rows || column < 0 || column >= columns)
                        continue;
                    const float *pixel = x + ((long)row * columns + column) * channels;
                    for (int i = 0; i < channels; i++) {
                        if (count == 0)
                            y[i] = pixel[i];
                        else if (average)
                            y[i] += pixel[i];
                        else if (pixel[i] > y[i])
                            y[i] = pixel[i];
                    }
                    count++;
                }
            }
            for (int i = 0; average && i < channels; i++)
                y[i] /= (float)count;
        }
    }
}

/* layer_norm: mean 0 and deviation 1 in each group of `width` numbers, then gain and shift */
static inline void NAME_layer_norm(const float *restrict x, const float *restrict gamma, const float *restrict beta,
                                   const float *restrict epsilon, float *restrict y, int n, int width)
{
    for (int begin = 0; begin < n; begin += width, x += width, y += width) {
        float mean = 0.0f, variance = 0.0f;
        for (int i = 0; i < width; i++)
            mean += x[i];
        mean /= (float)width;
        for (int i = 0; i < width; i++)
            variance += (x[i] - mean) * (x[i] - mean);
        const float deviation = sqrtf(variance / (float)width + epsilon[0]);
        for (int i = 0; i < width; i++)
            y[i] = (x[i] - mean) / deviation * gamma[i] + beta[i];
    }
}

/* affine: y = (x - minus) times + plus; shorter weights repeat */
static inline void NAME_affine(const float *restrict x, const float *restrict minus, const float *restrict times,
                               const float *restrict plus, float *restrict y, int n, int n_minus, int n_times,
                               int n_plus)
{
    for (int i = 0, a = 0, b = 0, c = 0; i < n; i++) {
        y[i] = (x[i] - minus[a]) * times[b] + plus[c];
        a = a + 1 == n_minus ? 0 : a + 1;
        b = b + 1 == n_times ? 0 : b + 1;
        c = c + 1 == n_plus ? 0 : c + 1;
    }
}

/* clip: numbers between low and high; shorter weights repeat */
static inline void NAME_clip(const float *restrict x, const float *restrict low, const float *restrict high,
                             float *restrict y, int n, int n_low, int n_high)
{
    for (int i = 0, a = 0, b = 0; i < n; i++) {
        const float above = x[i] < low[a] ? low[a] : x[i];
        y[i] = above > high[b] ? high[b] : above;
        a = a + 1 == n_low ? 0 : a + 1;
        b = b + 1 == n_high ? 0 : b + 1;
    }
}

/* relu */
static inline void NAME_relu(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

/* tanh */
static inline void NAME_tanh(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = tanhf(x[i]);
}

/* sigmoid */
static inline void NAME_sigmoid(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 0.5f * tanhf(0.5f * x[i]) + 0.5f;
}

/* exp */
static inline void NAME_exp(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = expf(x[i]);
}

/* elu */
static inline void NAME_elu(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] > 0.0f ? x[i] : expm1f(x[i]);
}

/* softplus */
static inline void NAME_softplus(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = (x[i] > 0.0f ? x[i] : 0.0f) + log1pf(expf(-fabsf(x[i])));
}

/* softsign */
static inline void NAME_softsign(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + fabsf(x[i]));
}

/* erf */
static inline void NAME_erf(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = erff(x[i]);
}

/* step */
static inline void NAME_step(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] > 0.0f ? 1.0f : 0.0f;
}

/* round: halves to even numbers */
static inline void NAME_round(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = rintf(x[i]);
}

/* softmax: of each group of `width` numbers */
static inline void NAME_softmax(const float *restrict x, float *restrict y, int n, int width)
{
    for (int begin = 0; begin < n; begin += width, x += width, y += width) {
        float top = x[0], sum = 0.0f;
        for (int i = 1; i < width; i++)
            top = x[i] > top ? x[i] : top;
        for (int i = 0; i < width; i++) {
            y[i] = expf(x[i] - top);
            sum += y[i];
        }
        for (int i = 0; i < width; i++)
            y[i] /= sum;
    }
}

/* weighted_sum: of each group of `width` numbers */
static inline void NAME_weighted_sum(const float *restrict x, const float *restrict weights, float *restrict y, int n,
                                     int width)
{
    for (int begin = 0; begin < n; begin += width, x += width, y++) {
        *y = 0.0f;
        for (int i = 0; i < width; i++)
            *y += x[i] * weights[i];
    }
}

/* add */
static inline void NAME_add(const float *restrict x, const float *restrict z, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] + z[i];
}

/* subtract */
static inline void NAME_subtract(const float *restrict x, const float *restrict z, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] - z[i];
}

/* multiply */
static inline void NAME_multiply(const float *restrict x, const float *restrict z, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] * z[i];
}

/* maximum */
static inline void NAME_maximum(const float *restrict x, const float *restrict z, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] > z[i] ? x[i] : z[i];
}

/* minimum */
static inline void NAME_minimum(const float *restrict x, const float *restrict z, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] < z[i] ? x[i] : z[i];
}

/* place: rows of `width` numbers into wider rows */
static inline void NAME_place(const float *restrict x, float *restrict y, int rows, int width, int wide)
{
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < width; i++)
            y[row * wide + i] = x[row * width + i];
}

/* one_hot: zeros and a one for each number */
static inline void NAME_one_hot(const float *restrict x, float *restrict y, int parts, const int *restrict sizes,
                                const int *restrict starts)
{
    for (int part = 0; part < parts; y += sizes[part], part++)
        for (int i = 0; i < sizes[part]; i++)
            y[i] = (int)x[part] - starts[part] == i ? 1.0f : 0.0f;
}

/* gather: a row of a table */
static inline void NAME_gather(const float *restrict x, const float *restrict table, float *restrict y, int parts,
                               const int *restrict strides, int width)
{
    long row = 0;
    for (int part = 0; part < parts; part++)
        row += (long)x[part] * strides[part];
    for (int i = 0; i < width; i++)
        y[i] = table[row * width + i];
}

/* argmax: the place of the largest number of each part */
static inline void NAME_argmax(const float *restrict x, float *restrict y, int parts, const int *restrict sizes,
                               const int *restrict starts)
{
    for (int part = 0; part < parts; x += sizes[part], part++) {
        int best = 0;
        for (int i = 1; i < sizes[part]; i++)
            best = x[i] > x[best] ? i : best;
        y[part] = (float)(best + starts[part]);
    }
}
