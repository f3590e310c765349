/* Act on test vectors: compare the actions with those expected, and measure the time of one action.

   A row of vectors.bin has float numbers: observation, mask, state, noise (what the policy has of them), then the
   expected action and new state. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "@PREFIX@.h"

#define INPUTS (@UPPER@_OBS + @UPPER@_MASK + @UPPER@_STATE + @SAMPLED@ * @UPPER@_NOISE)
#define OUTPUTS (@UPPER@_ACTION + @UPPER@_STATE)

static double difference(const float *found, const float *expected, int n)
{
    double most = 0.0;
    for (int i = 0; i < n; i++) {
        const double size = fabs(expected[i]) > 1.0 ? fabs(expected[i]) : 1.0;
        const double gap = isfinite(found[i]) ? fabs((double)found[i] - expected[i]) / size : HUGE_VAL;
        most = gap > most ? gap : most;
    }
    return most;
}

static void act(const float *row, float *state, float *action)
{
    const float *mask = row + @UPPER@_OBS;
    const float *before = mask + @UPPER@_MASK;
    for (int i = 0; i < @UPPER@_STATE; i++)
        state[i] = before[i];
    @CALL@;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "vectors.bin";
    const int repeats = argc > 2 ? atoi(argv[2]) : 1;
    static float row[INPUTS + OUTPUTS], action[@UPPER@_ACTION], state[@UPPER@_STATE + 1];
    double most = 0.0, seconds = 0.0;
    int count = 0;
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 2;
    }
    for (; fread(row, sizeof(float), INPUTS + OUTPUTS, file) == INPUTS + OUTPUTS; count++) {
        const clock_t begin = clock();
        for (int repeat = 0; repeat < repeats; repeat++)
            act(row, state, action);
        seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
        const double of_action = difference(action, row + INPUTS, @UPPER@_ACTION);
        const double of_state = difference(state, row + INPUTS + @UPPER@_ACTION, @UPPER@_STATE);
        most = of_action > most ? of_action : most;
        most = of_state > most ? of_state : most;
    }
    fclose(file);
    if (count == 0) {
        fprintf(stderr, "%s has no vectors\n", path);
        return 2;
    }
    printf("%d vectors, largest difference %.9g, %.3f microseconds an action\n", count, most,
           1e6 * seconds / count / repeats);
    return most <= 1e-5 ? 0 : 1;
}
